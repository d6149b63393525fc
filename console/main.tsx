import { render } from "preact";
import { App } from "./app.tsx";
import { pressOnce } from "./parts/form.tsx";
import { interceptLinks } from "./place.ts";
import "./style.css";
import { applyTheme } from "./theme.ts";

applyTheme();
interceptLinks();
pressOnce();
render(<App />, document.getElementById("app") as HTMLElement);
