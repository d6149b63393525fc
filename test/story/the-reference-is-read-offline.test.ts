/**
 * /docs: every guide, every endpoint and every name of an error, each link to a place that is there, nothing
 * from elsewhere.
 */
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { STATUS_OF } from "../../src/api/problem.ts";
import { EXAMPLE_ID } from "../../src/api/shapes.ts";
import { DOCUMENT, PATHS } from "../rig/document.ts";
import { type Engine, startEngine } from "../rig/engine.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["api", "console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

async function page(path: string): Promise<string> {
  const answer = await fetch(engine.consoleUrl + path);
  expect(answer.status, path).toBe(200);
  return answer.text();
}

async function guides(): Promise<string> {
  const names = (await readdir("docs")).filter((name) => name.endsWith(".md"));
  return (await Promise.all(names.map((name) => readFile(`docs/${name}`, "utf8")))).join("\n");
}

function linksIn(html: string): string[] {
  return [...html.matchAll(/<a href="([^"]*)"/g)].map(([, href = ""]) => href.replaceAll("&#38;", "&"));
}

test("each link of each page leads somewhere, and nothing is fetched from elsewhere", async () => {
  const pages = new Map<string, string>();
  const open = ["/docs"];
  const links: { from: string; path: string; anchor: string }[] = [];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const html = await page(path);
    pages.set(path, html);
    expect(html, path).not.toMatch(/<(?:script|img|iframe)|<link[^>]*href="(?!\/docs\/)|style="|\son\w+="/);
    for (const href of linksIn(html).filter((one) => !/^https?:|^\/console/.test(one))) {
      const [to = "", anchor = ""] = href.split("#");
      const target = to === "" ? path : to;
      links.push({ from: path, path: target, anchor });
      if (!pages.has(target) && !open.includes(target)) open.push(target);
    }
  }
  expect(pages.size).toBeGreaterThan(40);
  const dead = links.filter(
    ({ path, anchor }) => anchor !== "" && !pages.get(path)?.includes(`id="${anchor}"`),
  );
  expect(dead).toEqual([]);
});

test("every endpoint has its examples in three languages", async () => {
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    const html = await page(`/docs/api/${path.split("/")[1]}`);
    for (const [method, operation] of Object.entries(methods)) {
      const { operationId } = operation as { operationId: string };
      const [, part = ""] = html.split(`<h2 id="${operationId}">`);
      const own = part.split("</section>")[0] ?? "";
      expect(own, `${method} ${path}`).toMatch(/<h4>curl<\/h4>.*<h4>Node<\/h4>.*<h4>Python<\/h4>/s);
      expect(own, `${method} ${path}`).toContain(`curl -X ${method.toUpperCase()}`);
    }
  }
});

test("every body that is shown is taken: only what it names may be missing", async () => {
  const { client } = await engine.workspace();
  const answers: string[] = [];
  for (const [path, methods] of Object.entries(PATHS))
    for (const [method, { requestBody }] of Object.entries(methods)) {
      const shown = requestBody?.content["application/json"] as { example: unknown } | undefined;
      if (!shown) continue;
      expect(JSON.stringify(shown.example), `${method} ${path}`).not.toMatch(/[:[]"text"/);
      const { status } = await client.call(
        method.toUpperCase(),
        path.replace("{id_or_external_id}", "order-confirmation").replace(/\{\w+\}/g, EXAMPLE_ID),
        shown.example,
      );
      if (![200, 201, 202, 404, 409].includes(status)) answers.push(`${method} ${path}: ${status}`);
    }
  expect(answers).toEqual([]);
});

const RUNS: [name: string, program: string, ...options: string[]][] = [
  ["curl", "bash", "-c"],
  ["Node", process.execPath, "--input-type=module", "-e"],
  ["Python", "python3", "-c"],
];

test.each(RUNS)("the example in %s sends what it shows", async (name, program, ...options) => {
  const { client } = await engine.workspace();
  const [, part = ""] = (await page("/docs/api/emails")).split("<code>POST /emails</code></p>");
  const [, shown = ""] = new RegExp(`<h4>${name}</h4><pre[^>]*><code>(.*?)</code>`, "s").exec(part) ?? [];
  const text = shown.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
  // the tests let the system choose the port
  const example = text.replace("http://127.0.0.1:0", engine.url);
  await promisify(execFile)(program, [...options, example], { env: { ...process.env, KEY: client.key } });
  const { body } = await client.get<{ data: { subject: string }[] }>("/emails");
  expect(body.data.map(({ subject }) => subject)).toEqual(["Your order 1042"]);
});

test("every name of an error is explained, and found", async () => {
  const errors = await page("/docs/errors");
  for (const name of Object.keys(STATUS_OF)) {
    expect(errors, name).toContain(`id="${name}"`);
    expect(await page(`/docs/search?q=${name}`), name).toContain("/docs/errors#");
  }
  expect(await page("/docs/search?q=import+contacts")).toContain('class="found"');
  expect(await page("/docs/search?q=")).toContain("Nothing was found");
});

test("what was found is shown in whole words, without the marks of code", async () => {
  const html = await page("/docs/search?q=suppression");
  const shown = [...html.matchAll(/<li><a [^>]*>[^<]*<\/a><p>([^<]*)<\/p>/g)].map(([, text = ""]) => text);
  expect(shown.length).toBeGreaterThan(10);
  expect(shown.filter((text) => text.includes("`"))).toEqual([]);
  const cut = shown.filter((text) => text.endsWith(" …"));
  expect(cut.length).toBeGreaterThan(3);
  const words = new Set((await guides()).split(/[\s|()[\]`*\\]+/));
  expect(cut.map((text) => text.split(" ").at(-2) as string).filter((word) => !words.has(word))).toEqual([]);
});

test("what is searched for is text", async () => {
  const html = await page(`/docs/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(html).not.toContain("<script");
  expect((await fetch(`${engine.consoleUrl}/docs/..%2fpackage`)).status).toBe(404);
  expect((await fetch(`${engine.consoleUrl}/docs/nothing`)).status).toBe(404);
});
