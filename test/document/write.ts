/** Writes the OpenAPI document to the file that is named, for tools that read files. */
import { writeFileSync } from "node:fs";
import { DOCUMENT } from "../rig/document.ts";

const [file = "openapi.json"] = process.argv.slice(2);
writeFileSync(file, `${JSON.stringify(DOCUMENT, null, 2)}\n`);
