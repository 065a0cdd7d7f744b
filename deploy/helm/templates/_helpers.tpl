{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ include "tidegate.labelValue" .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | include "tidegate.labelValue" | quote }}
{{- end -}}

{{/* A version as a label has it: `+` of a build is none of its characters. It ends with a letter or digit. */}}
{{- define "tidegate.labelValue" -}}
{{- replace "+" "_" . | trunc 63 | regexFind "^.*[A-Za-z0-9]" -}}
{{- end -}}

{{/* Labels and annotations of an object: `of` is the part of the values, `root` the context. */}}
{{- define "tidegate.metadata" -}}
labels:
  {{- include "tidegate.labels" .root | nindent 2 }}
  {{- with .of.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .of.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The Service in which Prometheus finds the admin port. */}}
{{- define "tidegate.metricsName" -}}
{{ include "tidegate.name" . | trunc 55 | trimSuffix "-" }}-metrics
{{- end -}}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "tidegate.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* All listeners as JSON: name, port, servicePort, nodePort, grpc, listen (as in tidegate.yaml). */}}
{{- define "tidegate.listeners" -}}
{{- $all := list -}}
{{- range .Values.listeners -}}
{{- $listen := deepCopy (.options | default dict) -}}
{{- $_ := set $listen "address" (toString .port) -}}
{{- with .tls -}}
{{- $tls := deepCopy (.options | default dict) -}}
{{- $certificates := list -}}
{{- range .secrets -}}
{{- $certificates = append $certificates (dict "certificate" (printf "/run/tls/%s/tls.crt" .) "key" (printf "/run/tls/%s/tls.key" .)) -}}
{{- end -}}
{{- $_ := set $tls "certificates" $certificates -}}
{{- $_ := set $listen "tls" $tls -}}
{{- end -}}
{{- $grpc := eq (toString $listen.face) "envoy_grpc" -}}
{{- $all = append $all (dict "name" .name "port" .port "servicePort" (.servicePort | default .port) "nodePort" .nodePort "grpc" $grpc "listen" $listen) -}}
{{- end -}}
{{- if not $all -}}
{{- $grpc := and (eq .Values.mode "service") (eq .Values.ask.face "envoy_grpc") -}}
{{- $listen := toString .Values.port -}}
{{- if eq .Values.mode "service" -}}
{{- $listen = dict "address" (printf "0.0.0.0:%v" .Values.port) "face" .Values.ask.face "from" .Values.ask.from -}}
{{- if eq .Values.ask.face "forward_auth" -}}
{{- $_ := set $listen "dialect" .Values.ask.dialect -}}
{{- end -}}
{{- end -}}
{{- $all = list (dict "name" ($grpc | ternary "grpc" "http") "port" .Values.port "servicePort" (.Values.service.port | default .Values.port) "nodePort" .Values.service.nodePort "grpc" $grpc "listen" $listen) -}}
{{- end -}}
{{ toJson $all }}
{{- end -}}

{{/*
`of.name` in the words of Services and policies. Kubernetes before 1.32 finds no names of ports in init containers,
so those of a sidecar are numbers. Elsewhere a name lets old and new pods have different ports during a rollout.
*/}}
{{- define "tidegate.targetPort" -}}
{{- if eq .root.Values.mode "sidecar" -}}{{ int .of.port }}{{- else -}}{{ .of.name | quote }}{{- end -}}
{{- end -}}

{{/* The Secrets with certificates, as JSON, each once. */}}
{{- define "tidegate.tlsSecrets" -}}
{{- $all := list -}}
{{- range .Values.listeners -}}
{{- range (.tls | default dict).secrets -}}
{{- $all = append $all . -}}
{{- end -}}
{{- end -}}
{{ toJson (uniq $all) }}
{{- end -}}

{{/* The servicePort of the listener that `of.port` names, or of the first. */}}
{{- define "tidegate.backendPort" -}}
{{- $listeners := fromJsonArray (include "tidegate.listeners" .root) -}}
{{- $port := (first $listeners).servicePort -}}
{{- $name := .of.port -}}
{{- range $listeners -}}
{{- if eq .name $name -}}{{- $port = .servicePort -}}{{- end -}}
{{- end -}}
{{ int $port }}
{{- end -}}

{{/* The whole of tidegate.yaml. */}}
{{- define "tidegate.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $listen := list -}}
{{- range fromJsonArray (include "tidegate.listeners" .) -}}
{{- $listen = append $listen .listen -}}
{{- end -}}
{{- $_ := set $config "listen" (eq (len $listen) 1 | ternary (first $listen) $listen) -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $_ := set $config "upstream" (printf "http://127.0.0.1:%v" .Values.app.port) -}}
{{- end -}}
{{- $_ := set $config "admin" (printf "0.0.0.0:%v" .Values.adminPort) -}}
{{ toYaml $config }}
{{- end -}}

{{/* A duration of tidegate.yaml in whole seconds, rounded up; 0 for a variable, whose value the chart cannot see. */}}
{{- define "tidegate.seconds" -}}
{{- $units := dict "us" 0.000001 "ms" 0.001 "s" 1.0 "min" 60.0 "m" 60.0 "h" 3600.0 "day" 86400.0 "d" 86400.0 -}}
{{- $number := toString . | regexFind "^[0-9.]+" -}}
{{- $unit := get $units (toString . | trimPrefix $number) | default 0.0 -}}
{{ mulf (float64 $number) $unit | ceil | int }}
{{- end -}}

{{/* How many seconds a pod takes to stop at most: Tidegate takes 3 for what is left after a drain. */}}
{{- define "tidegate.stopSeconds" -}}
{{- $timeouts := .Values.config.timeouts -}}
{{- if not (kindIs "map" $timeouts) -}}{{- $timeouts = dict -}}{{- end -}}
{{- $delay := include "tidegate.seconds" ($timeouts.shutdown_delay | default "5s") | int -}}
{{- $drain := include "tidegate.seconds" ($timeouts.drain | default "30s") | int -}}
{{- $tunnels := include "tidegate.seconds" ($timeouts.drain_tunnels | default "30s") | int -}}
{{- $before := eq .Values.mode "sidecar" | ternary .Values.app.preStopSeconds 0 | int -}}
{{ add $before $delay (max $drain $tunnels) 3 }}
{{- end -}}

{{- define "tidegate.podAnnotations" -}}
{{- if not (or .Values.serviceMonitor.enabled (and .Values.networkPolicy.enabled (not .Values.networkPolicy.adminFrom))) }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.adminPort | quote }}
{{- end }}
{{- if eq .Values.onConfigChange "restart" }}
tidegate/config-checksum: {{ include "tidegate.config" . | sha256sum | quote }}
{{- end }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A tag has no `+`. */}}
{{- define "tidegate.image" -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (replace "+" "_" .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* Not empty: a rule of networkPolicy.egress could be for DNS. A rule without ports is for all; a name is any. */}}
{{- define "tidegate.reachesDns" -}}
{{- range .Values.networkPolicy.egress -}}
{{- range .ports | default (list (dict "protocol" "UDP")) -}}
{{- $first := .port | default 53 -}}
{{- $fits := or (kindIs "string" $first) (and (le (int $first) 53) (ge (int (.endPort | default $first)) 53)) -}}
{{- if and (eq (.protocol | default "TCP") "UDP") $fits -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Tidegate's container, of a gateway and of a sidecar alike. */}}
{{- define "tidegate.container" -}}
name: tidegate
image: {{ include "tidegate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, -c, /etc/tidegate/tidegate.yaml{{ if eq .Values.onConfigChange "watch" }}, --watch{{ end }}]
{{- with .Values.extraEnv }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraEnvFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if eq .Values.mode "sidecar" }}
# Starts before the application and ends after it.
restartPolicy: Always
{{- end }}
ports:
  {{- range fromJsonArray (include "tidegate.listeners" .) }}
  - {name: {{ .name | quote }}, containerPort: {{ int .port }}}
  {{- end }}
  - {name: admin, containerPort: {{ int .Values.adminPort }}}
# Not /readyz: a proxy that Redis refuses is not ready until that ends, and a restart would not help.
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/tidegate, readOnly: true}
  {{- if .Values.secretName }}
  - {name: secrets, mountPath: /run/secrets/tidegate, readOnly: true}
  {{- end }}
  {{- range $i, $secret := fromJsonArray (include "tidegate.tlsSecrets" .) }}
  - {name: tls-{{ $i }}, mountPath: {{ printf "/run/tls/%s" $secret | quote }}, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
