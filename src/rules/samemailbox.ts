/**
 * Whether an address in a report is the mailbox that mail to a recipient goes to, or somebody's behind it, as
 * a member of a list: only the first is evidence about the recipient.
 *
 * Promises: never taken for the same are other names, other domains, and `bob+tag` for `bob`: who files mail
 * in a mailbox that is missing may be there himself.
 */
import { parseMailbox } from "../address.ts";

type AddressParts = { name: string; domain: string };

/**
 * Addresses in lower case. Hosts of the domain are the same place: `bob@store.example.net` for
 * `bob@example.net`.
 */
export function isMailboxOf(reported: string, recipient: string): boolean {
  const [theirs, ours] = [partsOf(reported), partsOf(recipient)];
  const isSamePlace = isNested(ours.domain, theirs.domain) || areOneProviders(ours.domain, theirs.domain);
  return isSamePlace && [ours.name, withoutTag(ours.name)].some((name) => name === theirs.name);
}

/**
 * Domains of a provider at which a name is one person's. Google also ignores dots, and shows the address in
 * its own way.
 */
const GOOGLE: readonly string[] = ["gmail.com", "googlemail.com"];
/** Yandex gives every mailbox all of them (yandex.com/support/mail: addresses). */
const YANDEX: readonly string[] = ["yandex.ru", "ya.ru", "yandex.com", "yandex.by", "yandex.kz", "yandex.ua"];

function areOneProviders(one: string, other: string): boolean {
  return [GOOGLE, YANDEX].some((domains) => domains.includes(one) && domains.includes(other));
}

function isNested(one: string, other: string): boolean {
  return `.${one}`.endsWith(`.${other}`) || `.${other}`.endsWith(`.${one}`);
}

/** RFC 5233: what stands behind the plus sign is a folder of the mailbox. */
function withoutTag(name: string): string {
  const plus = name.indexOf("+");
  return plus > 0 ? name.slice(0, plus) : name;
}

/** Mail is sent to the A-labels of a domain; a report may show its own letters. */
function partsOf(given: string): AddressParts {
  const address = parseMailbox(given)?.address ?? given;
  const at = address.lastIndexOf("@");
  const domain = address.slice(at + 1);
  const name = address.slice(0, at);
  return { name: GOOGLE.includes(domain) ? name.replaceAll(".", "") : name, domain };
}
