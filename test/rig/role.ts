/** What process.ts forks: one process with the roles named on its command line. */

import { runRoles } from "../../src/process/run.ts";
import type { Role } from "../../src/process/serve.ts";

const status = await runRoles(process.argv.slice(2) as Role[]);
if (status !== null) process.exit(status);
