"""The JSON messages of the extender protocol: values and pure functions, no sockets and no policies.

``messages`` holds what is said, free of any JSON shape; ``documented``, ``volcano``, ``kube`` and ``both`` say how it
looks on the wire, each with the same four functions (``dialects.Dialect``); ``answers`` reads an answer in any of
these forms, ``recognise`` finds out in which form a question came. Nothing here knows the framework or the model.
"""
