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

{{/* A value, which is read under its former name too for one minor version. Call with (list $ "name" "formerName"),
and where the value has a default, that too: it counts as not set. */}}
{{- define "trellis.renamed" -}}
{{- $values := (index . 0).Values -}}
{{- $name := index . 1 -}}
{{- $formerName := index . 2 -}}
{{- $value := index $values $name -}}
{{- $former := index $values $formerName -}}
{{- if and (gt (len .) 3) (eq $value (last .)) -}}
{{- $value = "" -}}
{{- end -}}
{{- if and $value $former (ne (toString $value) (toString $former)) -}}
{{- fail (printf "%s: %v: the former name of %s, which is set to %v; remove %s" $formerName $former $name $value $formerName) -}}
{{- end -}}
{{- $value | default $former | default "" -}}
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

{{/* How the API server has objects converted between the versions of a definition, as config/crd/conversion.yaml has it. */}}
{{- define "trellis.conversion" -}}
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions:
    - v1
    clientConfig:
      service:
        name: trellis-webhook-service
        namespace: {{ .Release.Namespace }}
        path: /convert
        port: 443
{{- end }}
