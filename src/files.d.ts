declare module "*.bin" {
  const path: string;
  export default path;
}

declare module "*.wav" {
  const path: string;
  export default path;
}

declare module "*.gz" {
  const path: string;
  export default path;
}

declare module "*.md" {
  const text: string;
  export default text;
}
declare module "*.onnx" {
  const path: string;
  export default path;
}
