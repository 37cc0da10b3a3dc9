/** The path of a file that is embedded in the executable as it is. */
declare module "*/standalone.js" {
  const path: string;
  export default path;
}
