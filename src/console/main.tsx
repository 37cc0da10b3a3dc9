import "uplot/dist/uPlot.min.css";
import "./styles.css";
import { render } from "preact";
import "./lib/old-drawings.ts";
import { App } from "./app.tsx";

const root = document.getElementById("app");
if (root) render(<App />, root);
