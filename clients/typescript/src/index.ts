/**
 * Which checkpoint serves a unit, decided in this process by a signed ruleset that Millrace serves.
 *
 *     const client = new Client({ url: "https://millrace.example.com", token, keys: [key] });
 *     await client.start(); // fetches now, and every ten seconds from then on
 *     const a = client.assign("user-17", { fallback: "base-8" });
 *     a.version; a.experiment; a.arm; a.error;
 *
 * The rules are those of the Go package millrace/assignment; the same vectors hold both. `assign` never throws and never
 * waits: without a ruleset that is signed by a key of yours and still valid, it gives your fallback, and says why in `error`.
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";

export const FORMAT = "millrace.ruleset/1";
export const HASH_VERSION = 2;
export const BUCKETS = 10_000;
const MAX_DOCUMENT = 1 << 20;

/** Why nothing could be decided. The names are the same in every language. */
export type ErrorName = "malformed" | "unsupported" | "signature" | "expired" | "no_ruleset" | "no_unit" | "unreachable";

export class RulesetError extends Error {
  constructor(
    readonly code: ErrorName,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "RulesetError";
  }
}

export type Variant = "live" | "hold_back" | "control" | "candidate" | "kept" | "default";

export interface Assignment {
  /** The policy version to serve. */
  readonly version: string;
  readonly variant: Variant;
  /** Report both in TurnStarted.context; empty outside experiments and the hold-back. */
  readonly experiment: string;
  readonly arm: "" | "control" | "candidate";
  /** Only with the variant "default". */
  readonly error?: RulesetError;
}

/** What a session under way began with; a new one leaves both out. */
export interface Session {
  readonly checkpoint?: string;
  readonly experiment?: string;
}

export interface HoldBack {
  readonly id: string;
  readonly salt: string;
  /** Of 10,000, in each of its two groups. */
  readonly buckets: number;
  readonly version: string;
}

export interface Experiment {
  readonly id: string;
  readonly salt: string;
  /** Of 10,000. */
  readonly coverage: number;
  readonly control: string;
  readonly candidate: string;
  /** Milliseconds of the Unix epoch. */
  readonly startsAt: number;
  readonly endsAt: number;
}

const encoder = new TextEncoder(); // half a surrogate pair becomes U+FFFD

function fnv1a(text: string): number {
  let h = 2166136261;
  for (const byte of encoder.encode(text)) {
    h = Math.imul(h ^ byte, 16777619);
  }
  return h >>> 0;
}

/** The unit's place, 0 … 9,999, in the layer that the salt names. */
export function bucket(salt: string, unit: string): number {
  return fnv1a(String(fnv1a(salt + unit))) % BUCKETS;
}

function armOf(salt: string, unit: string, coverage: number): Assignment["arm"] {
  const place = bucket(salt, unit);
  if (2 * place < coverage) {
    return "control";
  }
  return place >= BUCKETS / 2 && 2 * (place - BUCKETS / 2) < coverage ? "candidate" : "";
}

function outside(version: string, variant: Variant): Assignment {
  return { version, variant, experiment: "", arm: "" };
}

export class Ruleset {
  constructor(
    readonly live: string,
    /** Milliseconds of the Unix epoch. */
    readonly validUntil: number,
    readonly holdBack: HoldBack | undefined,
    readonly experiment: Experiment | undefined,
    readonly kept: readonly string[],
  ) {}

  /** Which checkpoint serves the unit. Throws RulesetError: expired, or no_unit. */
  assign(unit: string, session: Session = {}, now: number = Date.now()): Assignment {
    if (now >= this.validUntil) {
      throw new RulesetError("expired", `ruleset has expired: it was valid until ${new Date(this.validUntil).toISOString()}`);
    }
    if (unit === "") {
      throw new RulesetError("no_unit", "no unit given");
    }
    const fresh = this.#fresh(unit, now);
    const { checkpoint = "", experiment = "" } = session;
    if (checkpoint === "" || (checkpoint === fresh.version && experiment === fresh.experiment)) {
      return fresh;
    }
    if (checkpoint === fresh.version || this.#serves(unit, checkpoint)) {
      return outside(checkpoint, "kept");
    }
    return fresh;
  }

  #fresh(unit: string, now: number): Assignment {
    const h = this.holdBack;
    if (h) {
      const arm = armOf(h.salt, unit, 2 * h.buckets);
      if (arm === "control") {
        return { version: h.version, variant: "hold_back", experiment: h.id, arm };
      }
      if (arm === "candidate") {
        return { version: this.live, variant: "live", experiment: h.id, arm };
      }
    }
    const x = this.experiment;
    if (x && x.startsAt <= now && now < x.endsAt) {
      const arm = armOf(x.salt, unit, x.coverage);
      if (arm !== "") {
        return { version: arm === "control" ? x.control : x.candidate, variant: arm, experiment: x.id, arm };
      }
    }
    return outside(this.live, "live");
  }

  #serves(unit: string, version: string): boolean {
    const x = this.experiment;
    return (
      version === this.live ||
      this.kept.includes(version) ||
      version === this.holdBack?.version ||
      (x !== undefined && version === x.candidate && armOf(x.salt, unit, x.coverage) === "candidate")
    );
  }
}

type Fields = Readonly<Record<string, unknown>>;

function malformed(why: string, cause?: unknown): RulesetError {
  return new RulesetError("malformed", `malformed ruleset: ${why}`, { cause });
}

function parse(text: string, what: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw malformed(`${what}: ${String(cause)}`, cause);
  }
  return fields(value, what);
}

function fields(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed(`${what} is no object`);
  }
  return value as Fields;
}

function part(of: Fields, name: string): Fields | undefined {
  const value = of[name];
  return value === undefined || value === null ? undefined : fields(value, name);
}

function text(of: Fields, name: string): string {
  const value = of[name] ?? "";
  if (typeof value !== "string") {
    throw malformed(`${name} is no text`);
  }
  return value;
}

function needed(of: Fields, name: string): string {
  const value = text(of, name);
  if (value === "") {
    throw malformed(`${name} is missing`);
  }
  return value;
}

function between(of: Fields, name: string, least: number, most: number): number {
  const value = of[name];
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    throw malformed(`${name} is ${JSON.stringify(value)}, want ${least} … ${most}`);
  }
  return value;
}

function time(of: Fields, name: string): number {
  const value = needed(of, name);
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(value) ? Date.parse(value) : NaN;
  if (Number.isNaN(at)) {
    throw malformed(`${name} is ${value}, no time of RFC 3339`);
  }
  return at;
}

function texts(of: Fields, name: string): readonly string[] {
  const value = of[name] ?? [];
  if (!Array.isArray(value) || !value.every((v) => typeof v === "string")) {
    throw malformed(`${name} is no list of texts`);
  }
  return value;
}

/** A public key as `millrace assignment key` prints it: base64 of 32 bytes. */
export function parseKey(key: string): KeyObject {
  const raw = Buffer.from(key.trim(), "base64");
  if (raw.length !== 32) {
    throw new TypeError(`${JSON.stringify(key)} is no public key: want base64 of 32 bytes, as \`millrace assignment key\` prints it`);
  }
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") }, format: "jwk" });
}

/** The ruleset of a document that one of the keys has signed. Throws RulesetError: malformed, signature or unsupported. */
export function verifyRuleset(document: string, keys: readonly KeyObject[]): Ruleset {
  if (document.length > MAX_DOCUMENT) {
    throw malformed(`${document.length} characters, want at most ${MAX_DOCUMENT}`);
  }
  const signed = parse(document, "the document");
  const ruleset = text(signed, "ruleset");
  const signature = Buffer.from(text(signed, "signature"), "base64");
  const message = encoder.encode(`${FORMAT}\n${ruleset}`);
  if (!keys.some((key) => verify(null, message, key, signature))) {
    throw new RulesetError("signature", `ruleset is not signed by a trusted key: it names key ${text(signed, "key_id")}`);
  }
  const of = parse(ruleset, "the ruleset");
  if (of["format"] !== FORMAT || of["hash_version"] !== HASH_VERSION) {
    throw new RulesetError("unsupported", `ruleset of another version: format ${String(of["format"])}, hash version ${String(of["hash_version"])}`);
  }
  const h = part(of, "hold_back");
  const x = part(of, "experiment");
  return new Ruleset(
    needed(of, "live"),
    time(of, "valid_until"),
    h && { id: needed(h, "id"), salt: needed(h, "salt"), buckets: between(h, "buckets", 1, BUCKETS / 2), version: needed(h, "version") },
    x && {
      id: needed(x, "id"),
      salt: needed(x, "salt"),
      coverage: between(x, "coverage", 0, BUCKETS),
      control: needed(x, "control"),
      candidate: needed(x, "candidate"),
      startsAt: time(x, "starts_at"),
      endsAt: time(x, "ends_at"),
    },
    texts(of, "kept"),
  );
}

export interface Config {
  /** Of Millrace, as in https://millrace.example.com */
  readonly url: string;
  /** With the scope assign:read. */
  readonly token: string;
  /** Whose rulesets are trusted; several while a key is being changed. */
  readonly keys: readonly string[];
  /** Milliseconds between two fetches; 10,000. It is also how late a rollback is heard of. */
  readonly every?: number;
  /** Milliseconds that a fetch may take; 5,000. */
  readonly timeout?: number;
  readonly clock?: () => number;
}

/** Keeps a ruleset current, and decides with it. */
export class Client {
  readonly #config: Config;
  readonly #keys: readonly KeyObject[];
  readonly #clock: () => number;
  #ruleset: Ruleset | undefined;
  #tag = "";
  #trouble: RulesetError | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(config: Config) {
    if (config.keys.length === 0) {
      throw new TypeError("no key to trust; `millrace assignment key` prints it");
    }
    this.#config = config;
    this.#keys = config.keys.map(parseKey);
    this.#clock = config.clock ?? Date.now;
  }

  /** Fetches once, and then in the background until `stop`; it keeps no process alive. */
  async start(): Promise<this> {
    await this.refresh();
    this.#timer = setInterval(() => void this.refresh(), this.#config.every ?? 10_000);
    this.#timer.unref();
    return this;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Fetches once. The error is also in assignments, once there is no valid ruleset from before. */
  async refresh(): Promise<RulesetError | undefined> {
    try {
      await this.#fetch();
      this.#trouble = undefined;
    } catch (cause) {
      this.#trouble = cause instanceof RulesetError ? cause : new RulesetError("unreachable", `${this.#config.url}: ${String(cause)}`, { cause });
    }
    return this.#trouble;
  }

  async #fetch(): Promise<void> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#config.token}` };
    if (this.#tag !== "") {
      headers["if-none-match"] = this.#tag;
    }
    const signal = AbortSignal.timeout(this.#config.timeout ?? 5_000);
    const response = await fetch(`${this.#config.url.replace(/\/+$/, "")}/v1/ruleset`, { headers, signal });
    const body = await response.text();
    if (response.status === 304 && this.#tag !== "") {
      return;
    }
    if (response.status !== 200) {
      throw new RulesetError("unreachable", `${this.#config.url} answered ${response.status}: ${body.slice(0, 200)}`);
    }
    const ruleset = verifyRuleset(body, this.#keys);
    if (this.#clock() >= ruleset.validUntil) {
      throw new RulesetError("expired", "ruleset has expired on arrival; compare the clocks");
    }
    this.#ruleset = ruleset;
    this.#tag = response.headers.get("etag") ?? "";
  }

  /** Which checkpoint serves the unit; the fallback, with an error, if that can't be said. */
  assign(unit: string, session: Session & { readonly fallback: string }): Assignment {
    let error = new RulesetError("no_ruleset", "no ruleset so far", { cause: this.#trouble });
    try {
      if (this.#ruleset) {
        return this.#ruleset.assign(unit, session, this.#clock());
      }
    } catch (cause) {
      if (!(cause instanceof RulesetError)) {
        throw cause;
      }
      error = cause.code === "expired" ? new RulesetError(cause.code, cause.message, { cause: this.#trouble }) : cause;
    }
    return { ...outside(session.fallback, "default"), error };
  }
}
