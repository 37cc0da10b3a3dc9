import { signal } from "@preact/signals";

/** The server's own address, with a slash at the end. A proxy may serve it below a path. */
export const BASE = new URL(".", location.href).href;

/** Makes an address of this server from one that may name the server differently (`server.base_url`). */
export function sameOrigin(address: string): string {
  const { pathname, search } = new URL(address, BASE);
  const at = pathname.search(/\/(v1|storage)\//);
  return new URL(pathname.slice(at < 0 ? 1 : at + 1) + search, BASE).href;
}

/** Parts of the address behind `#/`, such as `["t", "tr_…"]`. */
export const route = signal<readonly string[]>(readRoute());

function readRoute(): readonly string[] {
  const parts = location.hash.replace(/^#\/?/, "").split("/");
  return parts.filter(Boolean).map(decoded);
}

/** An address that was typed or cut may not be decodable; then it is what it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener("hashchange", () => {
  route.value = readRoute();
});

/** Returns the link to a view. */
export function linkTo(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** Shows a view. */
export function goTo(...parts: readonly string[]): void {
  location.hash = linkTo(...parts);
}
