/** The path of a file that is embedded in the executable as it is. */
declare module "*/standalone.js" {
  const path: string;
  export default path;
}
/** The list of the executable's parts (src/parts.ts). */
declare module "#shruti-parts" {
  const path: string;
  export default path;
}
