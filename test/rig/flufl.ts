/**
 * Bounces that nobody here wrote: the samples of Debian's python3-flufl.bounce, read where it is installed,
 * with what that package finds in each.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = "/usr/lib/python3/dist-packages/flufl/bounce/tests/data";
const SCRIPT = `
import email, json, os
from flufl.bounce import all_failures
texts = lambda some: sorted(one.decode("latin1").lower() for one in some)
found = {}
for name in os.listdir("${FOLDER}"):
    if name.endswith(".txt"):
        with open(os.path.join("${FOLDER}", name), "rb") as file:
            temporary, permanent = all_failures(email.message_from_binary_file(file))
            found[name] = texts(temporary | permanent)
print(json.dumps(found))`;

export type Sample = { name: string; message: Buffer; recipients: string[] };

/** Why there are none; null: there are. */
export function samplesMissing(): string | null {
  return existsSync(FOLDER)
    ? null
    : "python3-flufl.bounce is not installed (apt-get install python3-flufl.bounce)";
}

export function samples(): Sample[] {
  const said = execFileSync("/usr/bin/python3", ["-c", SCRIPT], { encoding: "utf8" });
  return Object.entries(JSON.parse(said) as Record<string, string[]>).map(([name, recipients]) => ({
    name,
    message: readFileSync(join(FOLDER, name)),
    recipients,
  }));
}

/** Only the messages, without asking what is in them. */
export function sampleMessages(): Buffer[] {
  if (samplesMissing() !== null) return [];
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".txt"))
    .map((name) => readFileSync(join(FOLDER, name)));
}
