// Holds Kubernetes objects to their types: validate.cjs NODE_MODULES < OBJECTS.json
//
// The types are those of the API's OpenAPI document, as the package kubernetes-models has them, and those
// of custom resources, of the packages @kubernetes-models/*. A key that a type does not have is a fault
// too: the API server would drop it.
'use strict';
const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');

const MODULES = path.resolve(process.argv[2]);
// The package of each API, and what the names of its types begin with.
const OPERATOR = 'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoring';
const TRAEFIK = 'ComGithubTraefikTraefikV3PkgProviderKubernetesCrdTraefikio';
const APIS = {
  v1: ['kubernetes-models', 'IoK8sApiCoreV1'],
  'apps/v1': ['kubernetes-models', 'IoK8sApiAppsV1'],
  'policy/v1': ['kubernetes-models', 'IoK8sApiPolicyV1'],
  'autoscaling/v2': ['kubernetes-models', 'IoK8sApiAutoscalingV2'],
  'networking.k8s.io/v1': ['kubernetes-models', 'IoK8sApiNetworkingV1'],
  'gateway.networking.k8s.io/v1': ['@kubernetes-models/gateway-api', 'IoK8sSigsGatewayApiApisV1'],
  'monitoring.coreos.com/v1': ['@kubernetes-models/prometheus-operator', `${OPERATOR}V1`],
  'traefik.io/v1alpha1': ['@kubernetes-models/traefik', `${TRAEFIK}V1alpha1`],
  'networking.istio.io/v1alpha3': ['@kubernetes-models/istio', 'NetworkingIstioIoV1alpha3'],
  'security.istio.io/v1': ['@kubernetes-models/istio', 'SecurityIstioIoV1'],
};

// What a type leaves open: Envoy's own configuration.
const OPEN = /^\/spec\/configPatches\/\d+\/patch\/value\//;

// `value`, which takes each key that a validator looks at out of `unseen`.
function watched(value, at, unseen) {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) {
    return value.map((one, place) => watched(one, `${at}/${place}`, unseen));
  }
  const inner = {};
  for (const [key, one] of Object.entries(value)) {
    unseen.add(`${at}/${key}`);
    inner[key] = watched(one, `${at}/${key}`, unseen);
  }
  return new Proxy(inner, {
    get(target, key) {
      unseen.delete(`${at}/${String(key)}`);
      return target[key];
    },
  });
}

async function faults(object) {
  const [name, begin] = APIS[object.apiVersion] ?? ['', ''];
  const schema = path.join(MODULES, name, '_schemas', `${begin}${object.kind}.js`);
  if (!fs.existsSync(schema)) return [`no type for ${object.apiVersion} ${object.kind}`];
  const loaded = await import(pathToFileURL(schema));
  const validate = loaded.validate ?? loaded.default.validate;
  const unseen = new Set();
  validate(watched(object, '', unseen));
  return [
    ...(validate.errors ?? []).map((one) => `${one.instancePath}: ${one.keyword} ${JSON.stringify(one.params)}`),
    ...[...unseen].filter((key) => !OPEN.test(key)).map((key) => `${key}: the API has no such key`),
  ];
}

async function main() {
  let wrong = 0;
  for (const object of JSON.parse(fs.readFileSync(0, 'utf8'))) {
    for (const fault of await faults(object)) {
      console.log(`${object.kind} ${object.metadata?.name}: ${fault}`);
      wrong += 1;
    }
  }
  process.exit(wrong ? 1 : 0);
}

main();
