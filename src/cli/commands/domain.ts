/** `postrider domain`, as it is typed. */
import { Resolver } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
import { messageOf } from "../../caught.ts";
import { type PrivateKey, readDomain, readKey, readSelector } from "../../domain/key.ts";
import { whyUnreadable } from "../files.ts";
import { runsWithStores } from "./runs.ts";
import { ofWorkspace } from "./workspace.ts";

const actions = () => import("../domain.ts");

export function domainCommand(): Command {
  const command = new Command("domain").description("sender domains of a workspace and their DKIM keys");
  addNew(
    command,
    "add",
    "add a sender domain (subdomains included) and create its DKIM key",
    runsWithStores(actions, "add"),
  );
  addNew(
    command,
    "rotate",
    "create a new DKIM key that replaces the current one once it is in DNS",
    runsWithStores(actions, "rotate"),
  );
  ofWorkspace(command, "list")
    .description("list the domains and DKIM keys of a workspace, and which are verified")
    .action(runsWithStores(actions, "list"));
  ofWorkspace(command, "show")
    .argument("<domain>", "the domain", readName)
    .description("show the DNS records to publish")
    .action(runsWithStores(actions, "show"));
  ofWorkspace(command, "verify")
    .argument("<domain>", "the domain", readName)
    .option("--resolver <address>", "the DNS server to ask, such as 192.0.2.1 or 192.0.2.1:53", readServer)
    .description(
      "check DNS: the ownership record or a DKIM key verifies the domain, and a new key starts to sign",
    )
    .action(runsWithStores(actions, "verify", { isLong: true }));
  command
    .command("reports")
    .argument(
      "<domain>",
      "the domain, of any workspace or of the return paths; subdomains included",
      readName,
    )
    .option("--json", "print JSON")
    .description("list the TLS reports that other servers sent about a domain of ours")
    .action(runsWithStores(actions, "reports"));
  ofWorkspace(command, "remove")
    .argument("<domain>", "the domain", readName)
    .option("--selector <name>", "remove only this key, which must not be the one that signs", readLabel)
    .description("remove a domain, so that the workspace cannot send from it, or one of its keys")
    .action(runsWithStores(actions, "remove"));
  return command;
}

function addNew(
  command: Command,
  name: string,
  does: string,
  action: ReturnType<typeof runsWithStores>,
): void {
  ofWorkspace(command, name)
    .argument("<domain>", "the part after @ in sender addresses, or a parent domain of it", readName)
    .option("--selector <name>", "the DKIM selector of the key; default: a new name", readLabel)
    .addOption(
      new Option(
        "--algorithm <name>",
        "of the new key; default: rsa. An ed25519 key signs in addition to an rsa key",
      )
        .choices(["rsa", "ed25519"])
        .conflicts("key"),
    )
    .option("--key <file>", "use this private key (PEM) instead of creating one", readKeyFile)
    .option("--now", "sign at once, before `verify` has found the key in DNS")
    .description(does)
    .action(action);
}

function readName(text: string): string {
  const domain = readDomain(text);
  if (domain === null) throw new InvalidArgumentError("It must be a domain name, such as example.com.");
  return domain;
}

function readLabel(text: string): string {
  const selector = readSelector(text);
  if (selector === null) throw new InvalidArgumentError("It may hold letters, digits and hyphens only.");
  return selector;
}

function readKeyFile(file: string): PrivateKey {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new InvalidArgumentError(whyUnreadable(file, error));
  }
  try {
    return readKey(text);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
}

function readServer(text: string): string {
  try {
    new Resolver().setServers([text]);
    return text;
  } catch {
    throw new InvalidArgumentError("It must be an IP address, with or without a port.");
  }
}
