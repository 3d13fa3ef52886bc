import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { type Assignment, BUCKETS, bucket, Client, parseKey, type RulesetError, verifyRuleset } from "../src/index.js";
import { Gateway, root } from "./gateway.js";

// The same vectors as the Go package's and the Python one's.
const vectors = JSON.parse(readFileSync(`${root}assignment/testdata/vectors.json`, "utf8"));
const hash = JSON.parse(readFileSync(`${root}internal/unithash/testdata/hash.json`, "utf8")).hash.cases;

const keys = (names: string[] | null) => (names ?? []).map((name) => parseKey(vectors.keys[name]));
const rules = (document: string) => verifyRuleset(vectors.documents[document], keys(["former", "trusted"]));
const code = (expected: string) => (e: unknown) => (e as RulesetError).code === expected;

test("hash", () => {
  const cases = hash.filter((c: { version: number }) => c.version === 2);
  assert.equal(cases.length, 5);
  for (const c of cases) {
    assert.equal(bucket(c.seed, c.value), Math.round(c.expected * BUCKETS));
  }
});

test("vectors", () => {
  assert.ok(vectors.cases.length > 100);
  for (const c of vectors.cases) {
    const assign = () => rules(c.document).assign(c.unit, { checkpoint: c.checkpoint, experiment: c.experiment }, Date.parse(c.now));
    if (c.error) {
      assert.throws(assign, code(c.error), c.name);
    } else {
      assert.deepEqual(assign(), c.expected, `${c.name}, ${c.document}, ${c.unit}`);
    }
  }
});

test("what must be refused", () => {
  assert.ok(vectors.refused.length > 10);
  for (const c of vectors.refused) {
    assert.throws(() => verifyRuleset(vectors.documents[c.document], keys(c.keys)), code(c.error), c.document);
  }
});

test("ten thousand units", () => {
  for (const [document, expected] of Object.entries(vectors.groups)) {
    const count: Record<string, number> = {};
    for (let i = 0; i < BUCKETS; i++) {
      const a = rules10k(document).assign(`unit-${i}`, {}, Date.parse(vectors.now));
      const group = `${a.variant} ${a.version} ${a.arm}`.trim();
      count[group] = (count[group] ?? 0) + 1;
    }
    assert.deepEqual(count, expected);
  }
});

const verified = new Map<string, ReturnType<typeof rules>>();
function rules10k(document: string) {
  const r = verified.get(document) ?? rules(document);
  verified.set(document, r);
  return r;
}

test("half an emoji is a unit too", () => {
  assert.equal(bucket("s", "u-\ud83d"), bucket("s", "u-\ufffd"));
});

let gateway: Gateway;
before(async () => {
  gateway = await Gateway.start();
});
after(() => gateway.close());

const fallback = "mine";
const given = { version: "mine", variant: "default", experiment: "", arm: "" };
const withoutError = ({ error: _, ...rest }: Assignment) => rest;

test("a stranger's ruleset gives the fallback rather than a wrong arm", async () => {
  const stranger = new Client({ ...gateway, keys: [vectors.keys.strange] });
  assert.equal((await stranger.refresh())?.code, "signature");
  const a = stranger.assign("user-17", { fallback });
  assert.deepEqual(withoutError(a), given);
  assert.equal(a.error?.code, "no_ruleset");
  assert.equal((a.error?.cause as RulesetError).code, "signature");
  assert.match(String(await new Client({ ...gateway, token: "mr_other", keys: [gateway.key] }).refresh()), /401/);
  assert.throws(() => new Client({ ...gateway, keys: ["short"] }), /millrace assignment key/);
});

test("a client", async () => {
  let now = Date.now();
  const client = new Client({ url: `${gateway.url}/`, token: gateway.token, keys: [gateway.key], clock: () => now });
  assert.equal(client.assign("user-17", { fallback }).error?.code, "no_ruleset");
  await client.start();
  try {
    const units = Array.from({ length: 300 }, (_, i) => `user-${i}`);
    const variants = new Set(units.map((unit) => client.assign(unit, { fallback }).variant));
    assert.deepEqual([...variants].sort(), ["candidate", "control", "hold_back", "live"]);
    assert.equal(client.assign("", { fallback }).error?.code, "no_unit");
    assert.equal(await client.refresh(), undefined);
    await gateway.tell("live cand-10");
    assert.equal(await client.refresh(), undefined);
    assert.ok(units.some((unit) => client.assign(unit, { fallback }).version === "cand-10"));
    await gateway.tell("away");
    assert.equal((await client.refresh())?.code, "unreachable");
    assert.equal(client.assign("user-17", { fallback }).error, undefined, "what was fetched holds until its end");
    now += 3_600_000;
    const late = client.assign("user-17", { fallback });
    assert.deepEqual(withoutError(late), given);
    assert.equal(late.error?.code, "expired");
    assert.equal((late.error?.cause as RulesetError).code, "unreachable");
  } finally {
    client.stop();
  }
});
