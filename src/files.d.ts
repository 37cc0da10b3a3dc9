declare module "*.bin" {
  const path: string;
  export default path;
}

declare module "*.wav" {
  const path: string;
  export default path;
}
