/**
 * The page of the console: the files that the build made, read once and served from memory, compressed
 * beforehand. A path below /console that names no file is a place within the page, and answers the page.
 * Nothing is looked up on disk for a request, so no path leads out of the folder.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";
import { codeOf } from "../caught.ts";
import type { ConsoleAnswer } from "./refusal.ts";
import type { ConsoleRequest } from "./request.ts";

/** Where the build puts the page, seen from the sources and from what is compiled. */
const PAGE_FOLDER = fileURLToPath(new URL("../../dist/console/app/", import.meta.url));
const INDEX = "index.html";
const YEAR_SECONDS = 31_536_000;

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json; charset=utf-8",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
};
const PACKED = new Set([".woff2", ".png"]);

type PageFile = {
  bytes: Buffer;
  zipped: Buffer | null;
  type: string;
  etag: string;
  isNamedByContent: boolean;
};

export class PageFiles {
  readonly #files: ReadonlyMap<string, PageFile>;

  constructor(folder = PAGE_FOLDER) {
    const files = filesOf(folder);
    if (!files.has(INDEX)) files.set(INDEX, fileOf(INDEX, Buffer.from(NOT_BUILT)));
    this.#files = files;
  }

  /** `path` is below /console/. */
  answer(path: string, request: ConsoleRequest): ConsoleAnswer {
    const file = this.#files.get(path);
    if (!file && extname(path) !== "" && path.startsWith("assets/"))
      return { status: 404, body: "There is no such file.", headers: { "Content-Type": "text/plain" } };
    return answerOf(file ?? (this.#files.get(INDEX) as PageFile), request);
  }
}

function answerOf(
  { bytes, zipped, type, etag, isNamedByContent }: PageFile,
  request: ConsoleRequest,
): ConsoleAnswer {
  const zips = zipped !== null && /\bgzip\b/.test(request.header("accept-encoding"));
  const headers = {
    "Content-Type": type,
    ETag: etag,
    Vary: "Accept-Encoding",
    "Cache-Control": isNamedByContent ? `public, max-age=${YEAR_SECONDS}, immutable` : "no-cache",
  };
  if (request.header("if-none-match").split(/, */).includes(etag)) return { status: 304, body: "", headers };
  if (!zips) return { status: 200, body: bytes, headers };
  return { status: 200, body: zipped, headers: { ...headers, "Content-Encoding": "gzip" } };
}

function filesOf(folder: string): Map<string, PageFile> {
  const files = new Map<string, PageFile>();
  for (const file of namesBelow(folder)) {
    const name = relative(folder, file).split(sep).join("/");
    files.set(name, fileOf(name, readFileSync(file)));
  }
  return files;
}

function namesBelow(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

function fileOf(name: string, bytes: Buffer): PageFile {
  const extension = extname(name);
  return {
    bytes,
    zipped: PACKED.has(extension) ? null : gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION }),
    type: TYPES[extension] ?? "application/octet-stream",
    etag: `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 24)}"`,
    isNamedByContent: name.startsWith("assets/"),
  };
}

const NOT_BUILT = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Console</title></head>
<body><h1>The console is not built</h1><p>The folder dist/console/app is missing. Run <code>npm run build</code>, then start
Postrider again.</p></body></html>`;
