{{- define "quire.labels" -}}
app.kubernetes.io/name: quire
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
