{{/*
Values that contradict each other, a line each: where, what is wrong, what to write instead. The schema of the
values has looked at each value by itself before.
*/}}
{{- define "tidegate.faults" -}}
{{- include "tidegate.faults.config" . -}}
{{- include "tidegate.faults.listeners" . -}}
{{- include "tidegate.faults.service" . -}}
{{- include "tidegate.faults.routes" . -}}
{{- include "tidegate.faults.pod" . -}}
{{- include "tidegate.faults.watching" . -}}
{{- end -}}

{{/* Fails with all of them; the template of the ConfigMap includes this. */}}
{{- define "tidegate.refuse" -}}
{{- with include "tidegate.faults" . | trim -}}
{{- fail (printf "the values cannot be used:\n%s" .) -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.faults.config" -}}
{{- $mode := .Values.mode -}}
{{- $example := dict "gateway" "{upstream: http://api.default.svc:3000, limits: [10/s, 120/min]}" "sidecar" "{limits: [10/s, 120/min]}" "service" "{limits: [10/s, 120/min]}" -}}
{{- if not .Values.config }}
config: it is empty, so Tidegate has no limits{{ if eq $mode "gateway" }} and nowhere to forward to{{ end }}: write tidegate.yaml there, without `listen` and `admin`, such as `config: {{ get $example $mode }}` (docs/configuration.md)
{{- end }}
{{- if hasKey .Values.config "listen" }}
config.listen: the chart writes it: remove it, and write `port`, or several `listeners`
{{- end }}
{{- if hasKey .Values.config "admin" }}
config.admin: the chart writes it, as the probes{{ if .Values.serviceMonitor.enabled }} and serviceMonitor{{ end }} need it at adminPort: remove it, and write `adminPort` for another port
{{- end }}
{{- if and .Values.config.upstream (eq $mode "sidecar") }}
config.upstream: with `mode: sidecar` the chart writes it, as http://127.0.0.1 and app.port: remove it, or write `mode: gateway`
{{- end }}
{{- if and .Values.config.upstream (eq $mode "service") (not .Values.listeners) }}
config.upstream: with `mode: service` Tidegate forwards nothing: remove it, or write `mode: gateway`
{{- end }}
{{- if and (eq $mode "sidecar") (not .Values.app.image) }}
app.image: it is empty, and `mode: sidecar` deploys the application: write its image, such as `app: {image: "registry.example/api:1", port: 3000}`, or `mode: gateway`
{{- end }}
{{- if and (ne $mode "sidecar") .Values.app.image }}
app.image: with `mode: {{ $mode }}` the chart deploys no application: remove it, or write `mode: sidecar`
{{- end }}
{{- end -}}

{{- define "tidegate.faults.listeners" -}}
{{- $names := list "admin" -}}
{{- $ports := list (int .Values.adminPort) -}}
{{- $servicePorts := list -}}
{{- $where := .Values.listeners | empty | ternary "port" "listeners" -}}
{{- range fromJsonArray (include "tidegate.listeners" .) }}
{{- if has .name $names }}
{{ $where }}: two listeners have the name `{{ .name }}` (`admin` is the chart's own): give each another
{{- end }}
{{- if has (int .port) $ports }}
{{ $where }}: two listeners have the port {{ .port }} (adminPort is {{ $.Values.adminPort }}): give each another
{{- end }}
{{- if has (int .servicePort) $servicePorts }}
{{ $where }}: two listeners have the port {{ .servicePort }} of the Service: write another `servicePort` for {{ .name }}
{{- end }}
{{- $names = append $names .name -}}
{{- $ports = append $ports (int .port) -}}
{{- $servicePorts = append $servicePorts (int .servicePort) -}}
{{- end }}
{{- if and .Values.listeners .Values.service.port }}
service.port: `listeners` says the ports of the Service: write `servicePort` of a listener instead
{{- end }}
{{- if and .Values.listeners .Values.service.nodePort }}
service.nodePort: `listeners` says the ports of the Service: write `nodePort` of a listener instead
{{- end }}
{{- range $i, $one := .Values.listeners }}
{{- $options := $one.options | default dict }}
{{- $face := $options.face | default "proxy" }}
{{- range list "address" "tls" }}
{{- if hasKey $options . }}
listeners[{{ $i }}].options.{{ . }}: the chart writes it: remove it, and write `{{ eq . "tls" | ternary "tls: {secrets: [...], options: {...}}" "port" }}` of the listener
{{- end }}
{{- end }}
{{- range list "certificate" "certificates" "key" }}
{{- if hasKey (($one.tls | default dict).options | default dict) . }}
listeners[{{ $i }}].tls.options.{{ . }}: the chart writes it: remove it, and name the Secret in `tls.secrets`
{{- end }}
{{- end }}
{{- if and (eq $.Values.mode "service") (eq $face "proxy") }}
listeners[{{ $i }}].options.face: with `mode: service` each listener is asked: write `face: check`, `forward_auth` or `envoy_grpc`, or `mode: gateway`
{{- end }}
{{- if and (has $face (list "check" "forward_auth" "envoy_grpc")) (not (or $options.from $options.token)) }}
listeners[{{ $i }}].options.from: it is missing, so no other pod could ask: write the networks of the pods that may, such as `from: [10.0.0.0/8]`
{{- end }}
{{- end }}
{{- end -}}

{{- define "tidegate.faults.service" -}}
{{- $service := .Values.service -}}
{{- if eq $service.type "ClusterIP" }}
{{- if $service.externalTrafficPolicy }}
service.externalTrafficPolicy: a Service of type ClusterIP has none: write `service.type: LoadBalancer` or `NodePort`, or remove it
{{- end }}
{{- range fromJsonArray (include "tidegate.listeners" .) }}
{{- if .nodePort }}
{{ $.Values.listeners | empty | ternary "service.nodePort" "listeners[].nodePort" }}: a Service of type ClusterIP has no node port: write `service.type: NodePort`, or remove {{ .nodePort }}
{{- end }}
{{- end }}
{{- else if eq $service.clusterIP "None" }}
service.clusterIP: a headless Service is of type ClusterIP, not {{ $service.type }}: write `service.type: ClusterIP`, or remove `None`
{{- end }}
{{- if ne $service.type "LoadBalancer" }}
{{- range list "loadBalancerClass" "loadBalancerSourceRanges" }}
{{- if get $service . }}
service.{{ . }}: only a Service of type LoadBalancer has it: write `service.type: LoadBalancer`, or remove it
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Ingress and HTTPRoute: how clients come to a listener. */}}
{{- define "tidegate.faults.routes" -}}
{{- $names := list -}}
{{- $redirecting := list -}}
{{- $listeners := fromJsonArray (include "tidegate.listeners" .) -}}
{{- range $listeners -}}
{{- $names = append $names .name -}}
{{- if and (kindIs "map" .listen) .listen.redirect -}}{{- $redirecting = append $redirecting .name -}}{{- end -}}
{{- end -}}
{{- range $key := list "ingress" "httpRoute" }}
{{- $one := get $.Values $key }}
{{- if $one.enabled }}
{{- if eq $.Values.mode "service" }}
{{ $key }}.enabled: with `mode: service` Tidegate has nothing for clients: write `false`, or `mode: gateway`
{{- end }}
{{- if and $one.port (not (has $one.port $names)) }}
{{ $key }}.port: there is no listener `{{ $one.port }}`: write one of `{{ join "`, `" $names }}`
{{- end }}
{{- if has ($one.port | default (first $names)) $redirecting }}
{{ $key }}.port: the listener `{{ $one.port | default (first $names) }}` sends each request back to https, in a circle: write another listener
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
ingress.hosts: it is empty, so no request would come: write `hosts: [{host: api.example.com, paths: [{path: /, pathType: Prefix}]}]`
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
httpRoute.parentRefs: it is empty, so no Gateway would take the route: write `parentRefs: [{name: gateway, namespace: gateways}]`
{{- end }}
{{- end -}}

{{- define "tidegate.faults.pod" -}}
{{- $stop := include "tidegate.stopSeconds" . | int -}}
{{- $grace := int .Values.terminationGracePeriodSeconds -}}
{{- if and $grace (lt $grace $stop) }}
terminationGracePeriodSeconds: a pod may take {{ $stop }} seconds to stop (`shutdown_delay`, `drain` and `drain_tunnels` of config.timeouts{{ if eq .Values.mode "sidecar" }}, app.preStopSeconds{{ end }}), and Kubernetes would kill it after {{ $grace }}: write at least {{ $stop }}, or 0, with which the chart computes it
{{- end }}
{{- if and .Values.image.tag .Values.image.digest }}
image.tag: `image.digest` already names the image, so the tag has no effect: remove one of them
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.min) (int .Values.autoscaling.max)) }}
autoscaling.min: {{ .Values.autoscaling.min }} is more than autoscaling.max, {{ .Values.autoscaling.max }}: write at most that
{{- end }}
{{- range list "app.kubernetes.io/name" "app.kubernetes.io/instance" }}
{{- if hasKey ($.Values.podLabels | default dict) . }}
podLabels: `{{ . }}` is the chart's, by which the Service finds the pods: remove it
{{- end }}
{{- end }}
{{- if and .Values.serviceAccount.annotations (not .Values.serviceAccount.create) }}
serviceAccount.annotations: only a ServiceAccount that the chart makes gets them: write `serviceAccount.create: true`, or annotate yours
{{- end }}
{{- $own := list "config" "secrets" -}}
{{- range $i, $secret := fromJsonArray (include "tidegate.tlsSecrets" .) -}}{{- $own = append $own (printf "tls-%d" $i) -}}{{- end -}}
{{- $volumes := $own -}}
{{- range .Values.extraVolumes }}
{{- if has .name $volumes }}
extraVolumes: `{{ .name }}` is there already: give the volume another name
{{- end }}
{{- $volumes = append $volumes .name -}}
{{- end }}
{{- $paths := list "/etc/tidegate" -}}
{{- if .Values.secretName -}}{{- $paths = append $paths "/run/secrets/tidegate" -}}{{- end -}}
{{- range fromJsonArray (include "tidegate.tlsSecrets" .) -}}{{- $paths = append $paths (printf "/run/tls/%s" .) -}}{{- end -}}
{{- range .Values.extraVolumeMounts }}
{{- if not (has .name $volumes) }}
extraVolumeMounts: there is no volume `{{ .name }}`: add it to extraVolumes
{{- end }}
{{- if has .mountPath $paths }}
extraVolumeMounts: two volumes are mounted at {{ .mountPath }}: mount `{{ .name }}` elsewhere
{{- end }}
{{- $paths = append $paths .mountPath -}}
{{- end }}
{{- end -}}

{{- define "tidegate.faults.watching" -}}
{{- if and .Values.networkPolicy.enabled .Values.serviceMonitor.enabled (not .Values.networkPolicy.adminFrom) }}
networkPolicy.adminFrom: it is empty, so Prometheus could not reach the admin port for serviceMonitor: write its pods, such as `adminFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]`
{{- end }}
{{- $known := list -}}
{{- range (.Files.Get "files/alerts.yaml" | fromYaml).groups -}}
{{- range .rules -}}{{- $known = append $known .alert -}}{{- end -}}
{{- end -}}
{{- range .Values.prometheusRule.without }}
{{- if not (has . $known) }}
prometheusRule.without: there is no alert `{{ . }}`: write one of {{ join ", " $known }}
{{- end }}
{{- end }}
{{- end -}}
