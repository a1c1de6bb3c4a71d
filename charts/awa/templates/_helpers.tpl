{{- define "awa.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of every object: the release and the chart, once if one contains the other. */}}
{{- define "awa.fullname" -}}
{{- $name := include "awa.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of objects that have no namespace. */}}
{{- define "awa.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "awa.fullname" .) }}
{{- end }}

{{- define "awa.selectorLabels" -}}
app.kubernetes.io/name: {{ include "awa.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "awa.labels" -}}
{{ include "awa.selectorLabels" . }}
{{ include "awa.otherLabels" . }}
{{- end }}

{{/* Labels of what belongs to the chart's test: not those by which the operator is selected. */}}
{{- define "awa.testLabels" -}}
app.kubernetes.io/name: {{ include "awa.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{ include "awa.otherLabels" . }}
{{- end }}

{{- define "awa.otherLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: awa
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "awa.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "awa.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "awa.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "awa.workerImage" -}}
{{- printf "%s:%s" .Values.workerImage.repository (default .Chart.AppVersion .Values.workerImage.tag) }}
{{- end }}

{{/* The watched namespaces as a JSON object with a list, empty for all of them. */}}
{{- define "awa.namespaces" -}}
{{- if and .Values.watch.allNamespaces .Values.watch.namespaces }}
{{- fail "watch.namespaces and watch.allNamespaces exclude each other: set one of them" }}
{{- end }}
{{- if .Values.watch.allNamespaces }}
{{- dict "list" (list) | toJson }}
{{- else }}
{{- dict "list" (default (list .Release.Namespace) .Values.watch.namespaces | uniq) | toJson }}
{{- end }}
{{- end }}

{{/* A watched namespace, for the chart's test. */}}
{{- define "awa.testNamespace" -}}
{{- $namespaces := (include "awa.namespaces" . | fromJson).list }}
{{- if or (not $namespaces) (has .Release.Namespace $namespaces) }}
{{- .Release.Namespace }}
{{- else }}
{{- first $namespaces }}
{{- end }}
{{- end }}
