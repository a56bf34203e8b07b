{{/* What the Services, the PodDisruptionBudget and the NetworkPolicy select the manager's pods by. */}}
{{- define "trellis.selectorLabels" -}}
app.kubernetes.io/name: trellis
app.kubernetes.io/component: manager
{{- end }}

{{/* Labels of an object of the release. Call with (list $ "component"). */}}
{{- define "trellis.labels" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: trellis
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version }}
{{- end }}

{{- define "trellis.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}
