// Answers of /api/ as Tidegate gives them, with names and figures of the test's choice. Also runs
// inside a page, so it is one function that uses nothing around it.
"use strict";

// `at`: the newest sample ends then. `names`: identifiers, policies and routes.
function makeAnswers(names, at, started) {
  const sample = (time, i) => ({
    time_ms: time, took_ms: 1000, requests: 100 + (i % 7), denials: 10,
    answers: { "1xx": 0, "2xx": 80, "3xx": 3, "4xx": 12, "5xx": 5, other: 0, none: i % 7 },
    outcomes: { forwarded: 90, answered: 0, redirected: 0, limited: 10, rejected: 0, failed: 1,
      unavailable: 0, aborted: i % 7 },
    decision_seconds: { count: 100, p50: 0.00006, p99: 0.0003 + (i % 5) / 1e5, p999: 0.001 },
    request_seconds: { count: 100, p50: 0.002, p99: 0.03, p999: 0.2 + (i % 3) / 10 },
    store: "up", store_failures: 0, leased_units: 1000 + i % 7, connections: 60 + (i % 9), upstream_connections: 12, upstream_failures: 1,
    upstreams: [[2, 2]], generation: 1, policies: names.map((_, k) => [80 + k, i % 11]),
    routes: [[0, 0], [100, 10]], costs: i % 3 ? [[0, 0.000015, 0.5], [1, 120, 700]] : [],
  });
  const totals = { requests: 5000, denials: 700, answers: {}, outcomes: { failed: 3, unavailable: 1 },
    policies: names.map((_, k) => [9000 - k, 100]), routes: [],
    costs: [[0, 12.5, 40.000001], [1, 12000, 70000]] };
  return (path, query) => {
    if (path === "/api/live") {
      const since = Number(query.get("since") ?? 0);
      const first = Math.max(since + 1000, at - 599000);
      const samples = [];
      for (let time = first; time <= at; time += 1000) samples.push(sample(time, Math.floor(time / 1000)));
      return { now_ms: at + 3, started_ms: started, version: "0.1.0", workers: 2, store: { kind: "memory" },
        config: { hash: "0123456789abcdef", rolled_back: false },
        policies: names.map((policy, k) => ({ policy, mode: k === 1 ? "shadow" : "enforce",
          ...(k < 3 && { unit: ["usd", "tokens", "units"][k] }) })), routes: names.map((route) => ({ route })),
        upstreams: [{ upstream: names[0], servers: 2, up: 2, queued: 0, connections: 5, connections_max: 512,
          active: 3 }], totals, samples };
    }
    if (path === "/api/top") {
      return { by: query.get("by"), enabled: true, names: 1024, seconds: 87, total: 1, error_max: 1,
        identifiers: names.map((identifier, i) => ({ identifier, count: 5000 - i, error: 3 })) };
    }
    if (path === "/api/denials") {
      return { enabled: true, shadow: query.get("shadow") === "on", left_out: 12, denials: names.map((name, i) => ({ id: `1-${i}`, time_ms: at - i,
        request_id: name, identifier: name, route: name, policy: name, limit: name, count: 10, quota: 10,
        retry_after_seconds: i % 2 ? null : 3 })) };
    }
    if (path === "/api/upstreams") {
      return { upstreams: [{ name: names[0], connections: 5, connections_max: 512, queued: 0, unresolved: names.slice(1, 2),
        servers: names.map((server) => ({ server, configured: server, weight: 1, state: "up", checked: true,
          active: 1, requests: 10, failures: 0, ejections: 0 })) }] };
    }
    const limit = { name: names[0], algorithm: "gcra", quota: 10, counted: 3, remaining: 7, next_unit_us: 1,
      all_free_us: 2, denied: false, denied_for_us: null };
    return { store: "memory", counted: true, identifiers: [{ identifier: query.get("identifier"), known_tier: null,
      policies: [{ policy: names[0], tier: names[0], has_tiers: true, mode: "enforce", limits: [limit], unknown: [] }],
      forgotten: names }] };
  };
}

module.exports = { makeAnswers };
