{{/* What the operator does in the namespaces that it watches. A test compares with its requests. */}}
{{- define "awa.rules" -}}
- apiGroups: [awa.dev]
  resources: [queues]
  verbs: [list, watch]
- apiGroups: [awa.dev]
  resources: [queues/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: {{ ternary "[get, list, watch, patch]" "[get, list, watch]" .Values.rbac.podDeletionCost }}
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secretNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
{{- if .Values.rbac.networkPolicies }}
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, create, patch, delete]
{{- end }}
{{- if .Values.rbac.podMonitors }}
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [list, create, patch, delete]
{{- end }}
{{- end }}
