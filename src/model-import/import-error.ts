/** A checkpoint that cannot be imported. The message begins with the file at fault and says what is wrong with it. */
export class ImportError extends Error {
  /** @param file the file's name as the admin knows it, such as `pytorch_model.bin` */
  constructor(file: string, reason: string) {
    super(`${file}: ${reason}`);
    this.name = "ImportError";
  }
}
