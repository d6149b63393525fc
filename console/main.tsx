import { render } from "preact";
import { App } from "./app.tsx";
import { interceptLinks } from "./place.ts";
import "./style.css";
import { applyTheme } from "./theme.ts";

applyTheme();
interceptLinks();
render(<App />, document.getElementById("app") as HTMLElement);
