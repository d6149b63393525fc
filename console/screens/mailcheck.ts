/** What mail programs are known to drop, hide or distrust in a mail. */
const HTML_BYTES_SHOWN = 102 * 1024;
const SUBJECT_CHARS_SHOWN = 70;

type Checked = { html: string | null; text: string | null; subject: string };
type Check = { says: string; fails(mail: Checked, page: Document): boolean };

const CHECKS: readonly Check[] = [
  { says: "There is no subject.", fails: ({ subject }) => subject === "" },
  {
    says: `The subject is longer than ${SUBJECT_CHARS_SHOWN} characters: phones cut it.`,
    fails: ({ subject }) => subject.length > SUBJECT_CHARS_SHOWN,
  },
  {
    says: "There is no text part: filters distrust mail with HTML alone.",
    fails: ({ html, text }) => html !== null && !text,
  },
  {
    says: "The HTML is larger than 102 KB: Gmail cuts off the rest.",
    fails: ({ html }) => new TextEncoder().encode(html ?? "").length > HTML_BYTES_SHOWN,
  },
  {
    says: "Scripts are removed by every mail program.",
    fails: (_, page) => page.querySelector("script") !== null,
  },
  {
    says: "Forms do not work in most mail programs.",
    fails: (_, page) => page.querySelector("form, input, button") !== null,
  },
  {
    says: "Frames, video and audio are removed by most.",
    fails: (_, page) => page.querySelector("iframe, video, audio, object, embed") !== null,
  },
  {
    says: "Outside style sheets are not loaded.",
    fails: (_, page) => page.querySelector('link[rel~="stylesheet"]') !== null,
  },
  {
    says: "A picture has no alt text: many programs show no pictures at first.",
    fails: (_, page) => page.querySelector("img:not([alt])") !== null,
  },
  {
    says: "A link leads to plain http.",
    fails: (_, page) => page.querySelector('a[href^="http:"]') !== null,
  },
  {
    says: "A link leads nowhere.",
    fails: (_, page) => page.querySelector('a[href=""], a[href="#"]') !== null,
  },
  {
    says: "Outlook for Windows knows neither flex nor grid.",
    fails: ({ html }) => /display\s*:\s*(inline-)?(flex|grid)/i.test(html ?? ""),
  },
  {
    says: "There are pictures, and next to no text.",
    fails: (_, page) => page.querySelector("img") !== null && textOf(page).length < 20,
  },
];

export function faultsIn(mail: Checked): string[] {
  // a parsed document runs nothing and loads nothing, but its styles would be reported as against our policy
  const unstyled = (mail.html ?? "")
    .replaceAll(/<(\/?)style\b/gi, "<$1template")
    .replaceAll(/\bstyle\s*=/gi, "data-style=");
  const page = new DOMParser().parseFromString(unstyled, "text/html");
  return CHECKS.filter(({ fails }) => fails(mail, page)).map(({ says }) => says);
}

function textOf(page: Document): string {
  return (page.body.textContent ?? "").trim();
}
