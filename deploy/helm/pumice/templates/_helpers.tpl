{{/* The scheduler's values: ours, and on top of them Volcano's where they are set. YAML. */}}
{{- define "pumice.scheduler" -}}
{{- $own := deepCopy .Values.scheduler -}}
{{- $theirs := .Values.custom | default dict -}}
{{- $names := dict
  "scheduler_replicas" "replicas" "scheduler_name" "name" "scheduler_config_override" "conf"
  "scheduler_plugins_dir" "pluginsDir" "scheduler_schedule_period" "schedulePeriod" "scheduler_log_level" "logLevel"
  "scheduler_resources" "resources" "leader_elect_enable" "leaderElect" "scheduler_sc" "podSecurityContext"
  "scheduler_main_csc" "securityContext" "scheduler_labels" "labels" "scheduler_podLabels" "podLabels"
  "default_affinity" "affinity" "default_tolerations" "tolerations" "default_ns" "nodeSelector" -}}
{{- $special := dict "scheduler_affinity" "affinity" "scheduler_tolerations" "tolerations" "scheduler_ns" "nodeSelector" -}}
{{- range $map := list $names $special -}}
{{- range $name, $ours := $map -}}
{{- $value := get $theirs $name -}}
{{- if and (hasKey $theirs $name) (not (kindIs "invalid" $value)) (ne (toString $value) "") -}}
{{- $_ := set $own $ours $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $file := get (.Values.basic | default dict) "scheduler_config_file" -}}
{{- if and (not $own.conf) $file -}}
{{- $_ := set $own "conf" (.Files.Get $file) -}}
{{- end -}}
{{- $_ := set $own "conf" ($own.conf | default (.Files.Get "files/scheduler.conf")) -}}
{{- if and (not $own.leaderElect) (gt (int $own.replicas) 1) -}}
{{- fail (printf "%d replicas without leader election would all decide: set scheduler.leaderElect (custom.leader_elect_enable) to true, or one replica" (int $own.replicas)) -}}
{{- end -}}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]*)?(ns|us|ms|s|m|h))+$" (toString $own.schedulePeriod)) -}}
{{- fail (printf "scheduler.schedulePeriod (custom.scheduler_schedule_period) %q: must be a duration as 500ms or 1s" (toString $own.schedulePeriod)) -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (ne (include "pumice.metrics" .) "true") -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled (custom.scheduler_metrics_enable): there is nothing to monitor" -}}
{{- end -}}
{{- if and $own.pluginsConfigMap (not $own.pluginsDir) -}}
{{- fail "scheduler.pluginsConfigMap needs scheduler.pluginsDir, the place where it is mounted" -}}
{{- end -}}
{{ toYaml $own }}
{{- end -}}

{{/* Where the conf is: namespace/name, or namespace/name/key. */}}
{{- define "pumice.confMap" -}}
{{- .Values.scheduler.existingConfMap | default (printf "%s/%s-scheduler-conf" .Release.Namespace .Release.Name) -}}
{{- end -}}

{{- define "pumice.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "pumice.pullPolicy" -}}
{{- get (.Values.basic | default dict) "image_pull_policy" | default .Values.image.pullPolicy -}}
{{- end -}}

{{- define "pumice.metrics" -}}
{{- $theirs := .Values.custom | default dict -}}
{{- if kindIs "bool" $theirs.scheduler_metrics_enable -}}
{{ $theirs.scheduler_metrics_enable }}
{{- else -}}
{{ .Values.metrics.enabled }}
{{- end -}}
{{- end -}}

{{/* Labels that everything has; ours win, for selectors look for them. YAML. */}}
{{- define "pumice.labels" -}}
{{- $ours := dict "app" (printf "%s-%s" .Release.Name .component) "app.kubernetes.io/name" "pumice" "app.kubernetes.io/component" .component -}}
{{ toYaml (merge $ours (get (.Values.custom | default dict) "common_labels" | default dict)) }}
{{- end -}}

{{/* Labels that everything has, and more that users give. YAML. */}}
{{- define "pumice.labelsAnd" -}}
{{ toYaml (merge (include "pumice.labels" . | fromYaml) (.more | default dict)) }}
{{- end -}}
