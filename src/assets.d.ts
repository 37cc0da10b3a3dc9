/** The path of a file that is embedded in the executable as it is. */
declare module "*/standalone.js" {
  const path: string;
  export default path;
}
/** The list of the executable's parts (src/executable/parts.ts). */
declare module "#shruti-parts" {
  const path: string;
  export default path;
}
/** The built files of src/console (scripts/console.ts). */
declare module "#console-files" {
  export const CONSOLE_FILES: {
    name: string;
    type: string;
    codings: { br?: string; gzip?: string; identity?: string };
  }[];
}
