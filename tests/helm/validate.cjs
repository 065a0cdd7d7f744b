// Holds Kubernetes objects to their types: validate.cjs NODE_MODULES < OBJECTS.json
//
// The types are those of the API's OpenAPI document, as the package kubernetes-models has them. A key
// that a type does not have is a fault too: the API server would drop it.
'use strict';
const fs = require('fs');
const path = require('path');

const SCHEMAS = path.join(path.resolve(process.argv[2]), 'kubernetes-models/_schemas');
const GROUPS = {
  v1: 'CoreV1', 'apps/v1': 'AppsV1', 'policy/v1': 'PolicyV1', 'autoscaling/v2': 'AutoscalingV2',
};

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

function faults(object) {
  const schema = path.join(SCHEMAS, `IoK8sApi${GROUPS[object.apiVersion]}${object.kind}.js`);
  if (!fs.existsSync(schema)) return [`no type for ${object.apiVersion}`];
  const { validate } = require(schema);
  const unseen = new Set();
  validate(watched(object, '', unseen));
  return [
    ...(validate.errors ?? []).map((one) => `${one.instancePath}: ${one.keyword} ${JSON.stringify(one.params)}`),
    ...[...unseen].map((key) => `${key}: the API has no such key`),
  ];
}

let wrong = 0;
for (const object of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  for (const fault of faults(object)) {
    console.log(`${object.kind} ${object.metadata?.name}: ${fault}`);
    wrong += 1;
  }
}
process.exit(wrong ? 1 : 0);
