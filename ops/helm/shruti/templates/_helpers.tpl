{{- define "shruti.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "shruti.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shruti.labels" -}}
{{ include "shruti.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "shruti.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/*
"true" where the config has server.base_url: in the table [server], as a dotted key or in an inline table, with or without quotes.
Helm 3.16 has no fromToml, so lines are compared: $lines are those up to the next table.
*/}}
{{- define "shruti.configHasBaseUrl" -}}
{{- $lines := `(?:[ \t\r]*(?:[^\[\s][^\n]*)?\n)*[ \t]*` }}
{{- $server := `["']?server["']?[ \t]*` }}
{{- $key := `["']?base_url["']?[ \t]*=` }}
{{- $inTable := printf `(?m)^[ \t]*\[[ \t]*%s\][^\n]*\n%s%s` $server $lines $key }}
{{- $dotted := printf `\A%s%s\.[ \t]*%s` $lines $server $key }}
{{- $inline := printf `\A%s%s=[ \t]*\{(?:[^\n]*,)?[ \t]*%s` $lines $server $key }}
{{- range list $inTable $dotted $inline }}{{ if regexMatch . $.Values.server.config }}true{{ end }}{{ end }}
{{- end }}

{{/* Clients send recordings to addresses below it. It counts before the config, so it is empty where that or server.env has one. */}}
{{- define "shruti.baseUrl" -}}
{{- if .Values.server.baseUrl }}{{ .Values.server.baseUrl }}
{{- else if or (include "shruti.configHasBaseUrl" .) (contains "\"SHRUTI_SERVER_BASE_URL\"" (toJson .Values.server.env)) }}
{{- else if and .Values.ingress.enabled .Values.ingress.host }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecretName "") }}://{{ .Values.ingress.host }}
{{- else }}{{ ternary "https" "http" (ne .Values.secrets.tls.name "") }}://{{ include "shruti.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end }}
{{- end }}

{{/* The user of the image, no rights, and a root that cannot be written. */}}
{{- define "shruti.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "shruti.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
