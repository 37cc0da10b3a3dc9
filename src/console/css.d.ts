/** Styles are part of the bundle (scripts/console.ts). */
declare module "*.css";
