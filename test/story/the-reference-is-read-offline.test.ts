/** /docs: every guide, every endpoint and every name of an error, each link to a place that is there, nothing from elsewhere. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { STATUS_OF } from "../../src/api/problem.ts";
import { DOCUMENT } from "../rig/document.ts";
import { type Engine, startEngine } from "../rig/engine.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine(["console"], { settings: { CONSOLE_PORT: "0" } });
});
afterAll(() => engine.stop());

async function page(path: string): Promise<string> {
  const answer = await fetch(engine.consoleUrl + path);
  expect(answer.status, path).toBe(200);
  return answer.text();
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
}, 60_000);

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
}, 60_000);

test("every name of an error is explained, and found", async () => {
  const errors = await page("/docs/errors");
  for (const name of Object.keys(STATUS_OF)) {
    expect(errors, name).toContain(`id="${name}"`);
    expect(await page(`/docs/search?q=${name}`), name).toContain("/docs/errors#");
  }
  expect(await page("/docs/search?q=import+contacts")).toContain('class="found"');
  expect(await page("/docs/search?q=")).toContain("Nothing was found");
});

test("what is searched for is text", async () => {
  const html = await page(`/docs/search?q=${encodeURIComponent('"><script>alert(1)</script>')}`);
  expect(html).not.toContain("<script");
  expect((await fetch(`${engine.consoleUrl}/docs/..%2fpackage`)).status).toBe(404);
  expect((await fetch(`${engine.consoleUrl}/docs/nothing`)).status).toBe(404);
});
