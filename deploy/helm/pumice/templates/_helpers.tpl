{{/* The prefix of all names. */}}
{{- define "pumice.name" -}}
{{- .Values.nameOverride | default .Release.Name -}}
{{- end -}}

{{/*
The values of a component (.part: scheduler or controllers; .root): ours, with Volcano's on top if they are set. YAML.
Volcano's names are default_* for both, then scheduler_* or controller_*.
*/}}
{{- define "pumice.component" -}}
{{- $own := deepCopy (get .root.Values .part) -}}
{{- $theirs := .root.Values.custom | default dict -}}
{{- $names := dict
  "replicas" "replicas" "log_level" "logLevel" "resources" "resources" "sc" "podSecurityContext"
  "main_csc" "securityContext" "labels" "labels" "podLabels" "podLabels" "affinity" "affinity"
  "tolerations" "tolerations" "ns" "nodeSelector" -}}
{{- if eq .part "scheduler" -}}
{{- $_ := merge $names (dict "name" "name" "config_override" "conf" "plugins_dir" "pluginsDir" "schedule_period" "schedulePeriod") -}}
{{- end -}}
{{- $all := dict "default_affinity" "affinity" "default_tolerations" "tolerations" "default_ns" "nodeSelector" -}}
{{- if eq .part "scheduler" -}}
{{- $_ := set $all "leader_elect_enable" "leaderElect" -}}
{{- end -}}
{{- $prefixed := dict -}}
{{- range $name, $ours := $names -}}
{{- $_ := set $prefixed (printf "%s_%s" (trimSuffix "s" $.part) $name) $ours -}}
{{- end -}}
{{- range $map := list $all $prefixed -}}
{{- range $name, $ours := $map -}}
{{- $value := get $theirs $name -}}
{{- if and (hasKey $theirs $name) (not (kindIs "invalid" $value)) (ne (toString $value) "") -}}
{{- $_ := set $own $ours $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toYaml $own }}
{{- end -}}

{{/* The scheduler's values, checked. YAML. */}}
{{- define "pumice.scheduler" -}}
{{- $own := include "pumice.component" (dict "root" . "part" "scheduler") | fromYaml -}}
{{- $file := get (.Values.basic | default dict) "scheduler_config_file" -}}
{{- if and (not $own.conf) $file -}}
{{- $_ := set $own "conf" (.Files.Get $file) -}}
{{- end -}}
{{- $_ := set $own "conf" ($own.conf | default (.Files.Get (ternary "files/kai.conf" "files/scheduler.conf" (eq $own.dialect "kai")))) -}}
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
{{- if and (eq $own.dialect "kai") (ne (index (splitList "/" (include "pumice.confMap" .)) 0) .Release.Namespace) -}}
{{- fail "scheduler.existingConfMap: with the dialect kai it is mounted, so it must be in the namespace of the release" -}}
{{- end -}}
{{ toYaml $own }}
{{- end -}}

{{/* The ConfigMap of the conf: namespace/name, or namespace/name/key. */}}
{{- define "pumice.confMap" -}}
{{- .Values.scheduler.existingConfMap | default (printf "%s/%s-scheduler-conf" .Release.Namespace (include "pumice.name" .)) -}}
{{- end -}}

{{- define "pumice.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
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

{{/* The labels of a component's objects (.root, .component); ours win, because selectors use them. YAML. */}}
{{- define "pumice.labels" -}}
{{- $ours := dict "app" (printf "%s-%s" (include "pumice.name" .root) .component) "app.kubernetes.io/name" "pumice" "app.kubernetes.io/component" .component -}}
{{ toYaml (merge $ours (deepCopy (.more | default dict)) (get (.root.Values.custom | default dict) "common_labels" | default dict)) }}
{{- end -}}

{{/* The metadata of an object: .root, .component, .name; .namespace ("" for a cluster's object), .more labels, .annotations. */}}
{{- define "pumice.metadata" -}}
name: {{ .name | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels: {{- include "pumice.labels" . | nindent 2 }}
{{- with .annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The name of a component's service account: .root, .component, .w (its values). */}}
{{- define "pumice.account" -}}
{{- .w.serviceAccount.name | default (printf "%s-%s" (include "pumice.name" .root) .component) -}}
{{- end -}}

{{/* Rules of rights from files/rights: .root, .files (names without .yaml). YAML. */}}
{{- define "pumice.rules" -}}
{{- $root := .root -}}
{{- range .files }}
{{ $root.Files.Get (printf "files/rights/%s.yaml" .) | trim }}
{{- end }}
{{- end -}}

{{/* The spec of a component's pods but its containers and volumes: .root, .component, .w. YAML. */}}
{{- define "pumice.podSpec" -}}
{{- $spec := dict "serviceAccountName" (include "pumice.account" .) "terminationGracePeriodSeconds" .w.terminationGracePeriodSeconds -}}
{{- $w := .w -}}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" "affinity" "hostNetwork" "dnsPolicy" -}}
{{- with get $w $key -}}
{{- $_ := set $spec $key . -}}
{{- end -}}
{{- end -}}
{{- with .w.podSecurityContext -}}
{{- $_ := set $spec "securityContext" . -}}
{{- end -}}
{{- $secrets := list -}}
{{- with get (.root.Values.basic | default dict) "image_pull_secret" -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- range .root.Values.image.pullSecrets -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- with $secrets -}}
{{- $_ := set $spec "imagePullSecrets" . -}}
{{- end -}}
{{- $constraints := .w.topologySpreadConstraints | default list -}}
{{- if .w.spread.topologyKey -}}
{{- $selector := dict "matchLabels" (dict "app" (printf "%s-%s" (include "pumice.name" .root) .component)) -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" .w.spread.topologyKey "whenUnsatisfiable" .w.spread.whenUnsatisfiable "labelSelector" $selector "matchLabelKeys" (list "pod-template-hash")) -}}
{{- end -}}
{{- with $constraints -}}
{{- $_ := set $spec "topologySpreadConstraints" . -}}
{{- end -}}
{{ toYaml $spec }}
{{- end -}}

{{/* Both probes of a component, as YAML: .w. */}}
{{- define "pumice.probes" -}}
livenessProbe: {{- toYaml (merge (dict "httpGet" (dict "path" "/livez" "port" "health")) (deepCopy .w.livenessProbe)) | nindent 2 }}
readinessProbe: {{- toYaml (merge (dict "httpGet" (dict "path" "/readyz" "port" "health")) (deepCopy .w.readinessProbe)) | nindent 2 }}
{{- end -}}

{{/* What a component's Deployment has beside its template: .root, .component, .w. YAML. */}}
{{- define "pumice.deployment" -}}
replicas: {{ .w.replicas }}
revisionHistoryLimit: {{ .w.revisionHistoryLimit }}
{{- with .w.updateStrategy }}
strategy: {{- toYaml . | nindent 2 }}
{{- end }}
selector:
  matchLabels: {app: {{ printf "%s-%s" (include "pumice.name" .root) .component | quote }}}
{{- end -}}

{{/* Annotations of a component's pods: .root, .w, .settings, .port of the metrics. YAML. */}}
{{- define "pumice.podAnnotations" -}}
{{- $own := dict "pumice.dev/settings" (sha256sum .settings) -}}
{{- $scraped := dict "prometheus.io/scrape" "true" "prometheus.io/port" .port "prometheus.io/scheme" (ternary "https" "http" (ne .root.Values.metrics.tlsSecret "")) -}}
{{ toYaml (merge $own (deepCopy (.w.podAnnotations | default dict)) (ternary $scraped dict (eq (include "pumice.metrics" .root) "true"))) }}
{{- end -}}

{{/* The settings file of `pumice run`. YAML. */}}
{{- define "pumice.schedulerSettings" -}}
{{- $s := include "pumice.scheduler" . | fromYaml -}}
{{- $metrics := dict "enabled" (eq (include "pumice.metrics" .) "true") "debug" $s.debugEndpoints -}}
{{- if and .Values.metrics.tlsSecret (or $metrics.enabled $s.debugEndpoints) -}}
{{- $_ := merge $metrics (dict "tlsCertFile" "/etc/pumice/metrics/tls.crt" "tlsPrivateKeyFile" "/etc/pumice/metrics/tls.key") -}}
{{- end -}}
{{- $settings := dict
  "apiVersion" "pumice.dev/v1" "kind" "Scheduler"
  "schedulerNames" (list (toString $s.name))
  "schedulePeriod" (toString $s.schedulePeriod)
  "defaultQueue" (toString $s.defaultQueue)
  "leaderElection" (dict "leaderElect" (eq (toString $s.leaderElect) "true") "resourceNamespace" .Release.Namespace)
  "metrics" $metrics
  "health" (dict "enabled" true)
  "verbosity" (int $s.logLevel) -}}
{{- if eq $s.dialect "kai" -}}
{{- $_ := set $settings "conf" (printf "/etc/pumice/conf/%s" (index (append (splitList "/" (include "pumice.confMap" .)) "scheduler.conf") 2)) -}}
{{- else -}}
{{- $_ := set $settings "confMap" (include "pumice.confMap" .) -}}
{{- end -}}
{{- with $s.compat }}{{ $_ := set $settings "compat" . }}{{ end -}}
{{- with $s.nodeSelectors }}{{ $_ := set $settings "nodeSelector" . }}{{ end -}}
{{- with $s.pluginsDir }}{{ $_ := set $settings "pluginsDir" . }}{{ end -}}
{{- if .Values.answers.enabled -}}
{{- $answers := dict "address" ":8443" "dashboard" .Values.answers.dashboard -}}
{{- if .Values.answers.tlsSecret -}}
{{- $_ := merge $answers (dict "tlsCertFile" "/etc/pumice/answers/tls.crt" "tlsPrivateKeyFile" "/etc/pumice/answers/tls.key") -}}
{{- end -}}
{{- $_ := set $settings "answers" $answers -}}
{{- end -}}
{{ toYaml (mergeOverwrite $settings $s.settings) }}
{{- end -}}

{{/* The settings file of `pumice controllers`. YAML. */}}
{{- define "pumice.controllersSettings" -}}
{{- $c := include "pumice.component" (dict "root" . "part" "controllers") | fromYaml -}}
{{- $s := include "pumice.scheduler" . | fromYaml -}}
{{- $metrics := dict "enabled" (eq (include "pumice.metrics" .) "true") -}}
{{- if and .Values.metrics.tlsSecret $metrics.enabled -}}
{{- $_ := merge $metrics (dict "tlsCertFile" "/etc/pumice/metrics/tls.crt" "tlsPrivateKeyFile" "/etc/pumice/metrics/tls.key") -}}
{{- end -}}
{{- $lease := dict "resourceName" (printf "%s-controllers" (include "pumice.name" .)) "resourceNamespace" .Release.Namespace -}}
{{- $settings := dict
  "apiVersion" "pumice.dev/v1" "kind" "Controllers"
  "controllers" $c.run
  "schedulerNames" (list (toString $s.name))
  "leaderElection" $lease
  "metrics" $metrics
  "health" (dict "enabled" true)
  "verbosity" (int $c.logLevel) -}}
{{ toYaml (mergeOverwrite $settings $c.settings) }}
{{- end -}}

{{/* The ConfigMap of a component's settings: .root, .component, .settings (YAML). */}}
{{- define "pumice.settings" -}}
# The settings of the {{ .component }}: read when a pod starts.
apiVersion: v1
kind: ConfigMap
metadata: {{- include "pumice.metadata" (dict "root" .root "component" .component "name" (printf "%s-%s-settings" (include "pumice.name" .root) .component) "namespace" .root.Release.Namespace) | nindent 2 }}
data:
  settings.yaml: |
    {{- .settings | nindent 4 }}
{{- end -}}

{{/* What stands beside each component: its account, its lease's role, its disruption budget, the Service of its metrics. */}}
{{- define "pumice.beside" -}}
{{- $name := printf "%s-%s" (include "pumice.name" .root) .component -}}
{{- $at := dict "root" .root "component" .component "namespace" .root.Release.Namespace -}}
{{- if .w.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{- include "pumice.metadata" (merge (dict "name" (include "pumice.account" .) "annotations" .w.serviceAccount.annotations) $at) | nindent 2 }}
{{- end }}
---
# All that it may do in the whole cluster: it reads no secrets.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{- include "pumice.metadata" (dict "root" .root "component" .component "name" $name) | nindent 2 }}
rules: {{- include "pumice.rules" . | trim | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{- include "pumice.metadata" (dict "root" .root "component" .component "name" $name) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name | quote }}}
subjects:
- {kind: ServiceAccount, name: {{ include "pumice.account" . | quote }}, namespace: {{ .root.Release.Namespace | quote }}}
---
# The lease. Creation cannot be limited to a name.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- include "pumice.metadata" (merge (dict "name" (printf "%s-lease" $name)) $at) | nindent 2 }}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .lease | toString | quote }}]
  verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- include "pumice.metadata" (merge (dict "name" (printf "%s-lease" $name)) $at) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ printf "%s-lease" $name | quote }}}
subjects:
- {kind: ServiceAccount, name: {{ include "pumice.account" . | quote }}, namespace: {{ .root.Release.Namespace | quote }}}
{{- end -}}

{{/* The PodDisruptionBudget of a component with several replicas, and the Service of its metrics: .root, .component, .w, .port. */}}
{{- define "pumice.around" -}}
{{- $name := printf "%s-%s" (include "pumice.name" .root) .component -}}
{{- $at := dict "root" .root "component" .component "name" $name "namespace" .root.Release.Namespace -}}
{{- if and .w.podDisruptionBudget.enabled (gt (int .w.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "pumice.metadata" $at | nindent 2 }}
spec:
  maxUnavailable: {{ .w.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels: {app: {{ $name | quote }}}
{{- end }}
{{- if eq (include "pumice.metrics" .root) "true" }}
---
apiVersion: v1
kind: Service
metadata: {{- include "pumice.metadata" $at | nindent 2 }}
spec:
  selector: {app: {{ $name | quote }}}
  ports:
  - {name: metrics, port: {{ .port }}, targetPort: metrics}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
{{- $ports := list (dict "ports" (list (dict "port" "health"))) -}}
{{- if or (eq (include "pumice.metrics" .root) "true") .w.debugEndpoints -}}
{{- $ports = append $ports (dict "ports" (list (dict "port" "metrics")) "from" .root.Values.networkPolicy.metricsFrom) -}}
{{- end -}}
{{- if and .root.Values.answers.enabled (eq .component "scheduler") -}}
{{- $ports = append $ports (dict "ports" (list (dict "port" "answers")) "from" .root.Values.networkPolicy.answersFrom) -}}
{{- end }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- include "pumice.metadata" $at | nindent 2 }}
spec:
  policyTypes: [Ingress]
  podSelector:
    matchLabels: {app: {{ $name | quote }}}
  ingress: {{- toYaml $ports | nindent 2 }}
{{- end }}
{{- end -}}
