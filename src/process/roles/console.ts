/** The page for people, and the API's own handlers for those who are signed in. */
import { keyReader } from "../../admission/bearer.ts";
import { Keyring } from "../../admission/keyring.ts";
import { openConsoleDoor } from "../../api/consoledoor.ts";
import { heardWith } from "../../capacity/heard.ts";
import { type Config, homeFolder } from "../../config.ts";
import { startConsole } from "../../console/console.ts";
import { readFigures, sendingNow } from "../../delivery/figures.ts";
import { Home } from "../../embedded/home.ts";
import { urlAt } from "../../rules/urlat.ts";
import { handlersOf, openAbove, openIntake } from "./intake.ts";
import { notOpened, operatorSender, type RoleParts } from "./parts.ts";

export async function startConsoleRole(parts: RoleParts) {
  const { config, serverSecret, stores, clock, budget: room, log, onFault } = parts;
  const { consolePort, publicUrl, trustProxy, mailboxUrl, host, port } = config;
  if (consolePort === null) {
    log.info("the console is not served: CONSOLE_PORT is not set");
    return null;
  }
  const intake = await openIntake(parts);
  const { reads: sql, redis } = intake.parts;
  const lists = stores.lists(sql);
  const door = openConsoleDoor({ ...intake.parts, lists, ...handlersOf(config) }, onFault);
  const { served, stop } = await openAbove(
    [door, intake],
    () =>
      startConsole({
        ...{ sql, lists, redis, clock, serverSecret, door, room },
        ...{ publicUrl, trustProxy, mailboxUrl, host, onFault },
        keyring: new Keyring({ redis, sql, serverSecret, clock }),
        port: consolePort,
        heard: heardWith(config),
        apiUrl: urlAt(host, port),
        mailFrom: operatorSender(config),
        demoKey: () => demoKeyOf(config, serverSecret),
        figures: async (now) => sendingNow(await readFigures(redis, now)),
      }),
    (error) =>
      notOpened(
        `The console cannot listen on ${host}, port ${consolePort}`,
        error,
        "Set HOST or CONSOLE_PORT.",
      ),
  );
  return { consolePort: served.port, stop };
}

/** Only `npm start` keeps one, and only where it catches the mail. */
function demoKeyOf(config: Config, serverSecret: string) {
  const key = config.mailboxUrl === null ? null : new Home(homeFolder(config)).demoKey();
  const bearer = key === null ? null : keyReader(serverSecret)(key);
  return key !== null && bearer ? { key, handle: bearer.handle } : null;
}
