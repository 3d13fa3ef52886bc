// OpenFeature's own SDKs and OFREP providers, as published, against a gateway.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature } from "@openfeature/server-sdk";
import { OpenFeature as OpenFeatureWeb, ProviderEvents } from "@openfeature/web-sdk";

import { Client } from "../src/index.js";
import { Gateway, root } from "./gateway.js";

const flag = "composer-checkpoint";
let gateway: Gateway;
let headers: [string, string][];
before(async () => {
  gateway = await Gateway.start();
  headers = [["Authorization", `Bearer ${gateway.token}`]];
});
after(() => gateway.close());

test("the server SDK evaluates as the ruleset does", async () => {
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: gateway.url, headers }));
  const sdk = OpenFeature.getClient();
  const local = await new Client({ ...gateway, keys: [gateway.key] }).start();
  const seen = new Set<string>();
  try {
    for (const unit of [...Array.from({ length: 60 }, (_, i) => `user-${i}`), "👩‍💻-42", "Zoë", "Zoe\u0308", "χρήστης-7", "a\0b", " "]) {
      const here = local.assign(unit, { fallback: "mine" });
      const there = await sdk.getStringDetails(flag, "mine", { targetingKey: unit });
      seen.add(here.variant);
      assert.equal(there.errorCode, undefined, there.errorMessage);
      assert.deepEqual([there.value, there.variant, there.reason], [here.version, here.variant, here.arm ? "SPLIT" : "STATIC"]);
      const { valid_until: until, ...metadata } = there.flagMetadata;
      assert.deepEqual(metadata, { hash_version: 2, ...(here.arm ? { experiment: here.experiment, arm: here.arm } : {}) });
      assert.equal(until !== undefined, here.variant === "control" || here.variant === "candidate");
    }
    assert.deepEqual([...seen].sort(), ["candidate", "control", "hold_back", "live"]);
  } finally {
    local.stop();
  }
  for (const [details, code] of [
    [await sdk.getStringDetails(flag, "mine", {}), "TARGETING_KEY_MISSING"],
    [await sdk.getStringDetails("colour", "mine", { targetingKey: "u" }), "FLAG_NOT_FOUND"],
    [await sdk.getStringDetails(flag, "mine", { targetingKey: "u", sessionId: 7 }), "INVALID_CONTEXT"],
  ] as const) {
    assert.deepEqual([details.value, details.errorCode], ["mine", code]);
  }
  await OpenFeature.clearProviders();
});

test("the examples of the manual", async () => {
  const manual = readFileSync(`${root}docs/assignment.md`, "utf8");
  const examples = [...manual.matchAll(/```ts\n(.*?)```/gs)].map((m) => (m[1] ?? "").replaceAll("https://millrace.example.com", gateway.url));
  assert.equal(examples.length, 2);
  const names = { OpenFeature, OFREPProvider, Client, token: gateway.token, key: gateway.key };
  const run = new Function(...Object.keys(names), `return (async () => {\n${examples.join("\n")}\nreturn { answer, a, client };\n})();`);
  const { answer, a, client } = await run(...Object.values(names));
  client.stop();
  assert.equal(answer.errorCode, undefined);
  assert.equal(a.error, undefined);
  assert.equal(answer.value, a.version);
  await OpenFeature.clearProviders();
});

test("the web SDK keeps what it has with the bulk call's ETag, and hears of a promotion", async () => {
  const statuses: number[] = [];
  const provider = new OFREPWebProvider({
    baseUrl: gateway.url,
    headers,
    pollInterval: 50,
    fetchImplementation: async (input, init) => {
      const response = await fetch(input, init);
      statuses.push(response.status);
      return response;
    },
  });
  const sdk = OpenFeatureWeb.getClient();
  const local = await new Client({ ...gateway, keys: [gateway.key] }).start();
  local.stop();
  const unit = Array.from({ length: 300 }, (_, i) => `user-${i}`).find((u) => local.assign(u, { fallback: "" }).variant === "live");
  assert.ok(unit);
  await OpenFeatureWeb.setProviderAndWait(provider, { targetingKey: unit });
  try {
    assert.equal(sdk.getStringValue(flag, "mine"), "base-8");
    while (!statuses.includes(304)) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const changed = new Promise((resolve) => sdk.addHandler(ProviderEvents.ConfigurationChanged, resolve));
    await gateway.tell("live cand-10");
    await changed;
    assert.equal(sdk.getStringValue(flag, "mine"), "cand-10");
  } finally {
    await OpenFeatureWeb.clearProviders();
  }
});

test("a gateway that is away gives the default", async () => {
  await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: gateway.url, headers }));
  await gateway.tell("away");
  const details = await OpenFeature.getClient().getStringDetails(flag, "mine", { targetingKey: "user-17" });
  assert.deepEqual([details.value, details.reason, details.errorCode], ["mine", "ERROR", "GENERAL"]);
  await OpenFeature.clearProviders();
});
