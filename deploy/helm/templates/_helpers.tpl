{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What is spoken at the port for clients: meshes and balancers go by its name. */}}
{{- define "tidegate.protocol" -}}
{{- and (eq .Values.mode "service") (eq .Values.service.face "envoy_grpc") | ternary "grpc" "http" -}}
{{- end -}}

{{/* The whole of tidegate.yaml. */}}
{{- define "tidegate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if eq .Values.mode "service" -}}
{{- $listener := dict "address" (printf "0.0.0.0:%v" .Values.port) "face" .Values.service.face "from" .Values.service.from -}}
{{- if eq .Values.service.face "forward_auth" -}}
{{- $_ := set $listener "dialect" .Values.service.dialect -}}
{{- end -}}
{{- $_ := set $config "listen" $listener -}}
{{- $_ := unset $config "upstream" -}}
{{- else -}}
{{- $_ := set $config "listen" (toString .Values.port) -}}
{{- end -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $_ := set $config "upstream" (printf "http://127.0.0.1:%v" .Values.app.port) -}}
{{- end -}}
{{- $_ := set $config "admin" (printf "0.0.0.0:%v" .Values.adminPort) -}}
{{ toYaml $config }}
{{- end -}}

{{/* Tidegate's container, of a gateway and of a sidecar alike. */}}
{{- define "tidegate.container" -}}
name: tidegate
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, -c, /etc/tidegate/tidegate.yaml{{ if eq .Values.onConfigChange "watch" }}, --watch{{ end }}]
{{- if eq .Values.mode "sidecar" }}
# Starts before the application and ends after it.
restartPolicy: Always
{{- end }}
ports:
  - {name: {{ include "tidegate.protocol" . }}, containerPort: {{ .Values.port }}}
  - {name: admin, containerPort: {{ .Values.adminPort }}}
startupProbe:
  httpGet: {path: {{ eq .Values.mode "sidecar" | ternary "/healthz" "/readyz" }}, port: admin}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
securityContext:
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/tidegate, readOnly: true}
  {{- if .Values.secretName }}
  - {name: secrets, mountPath: /run/secrets/tidegate, readOnly: true}
  {{- end }}
{{- end -}}
