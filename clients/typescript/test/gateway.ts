import { type ChildProcess, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** A gateway that serves assignments and nothing else: no Postgres, no Kafka, no control plane. */
export class Gateway {
  private constructor(
    readonly url: string,
    readonly token: string,
    readonly key: string,
    private readonly process: ChildProcess,
    private readonly lines: AsyncIterableIterator<string>,
    private readonly reader: Interface,
  ) {}

  static async start(): Promise<Gateway> {
    const process = spawn("go", ["run", "./clients/testserver"], { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
    const reader = createInterface({ input: process.stdout });
    const lines = reader[Symbol.asyncIterator]();
    const where = JSON.parse((await lines.next()).value);
    return new Gateway(where.url, where.token, where.key, process, lines, reader);
  }

  /** "live VERSION" promotes; "away" answers 503 from now on. */
  async tell(command: string): Promise<void> {
    this.process.stdin?.write(`${command}\n`);
    const { value } = await this.lines.next();
    if (value !== "done") {
      throw new Error(`the gateway answered ${value}`);
    }
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.process.once("close", resolve));
    this.process.stdin?.end();
    await closed;
    this.reader.close();
  }
}
