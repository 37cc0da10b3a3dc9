const GIVE_UP_MS = 5000;

/** Finds the length of a recording, as far as the browser can play it. Returns seconds, or undefined. */
export function lengthOfFile(file: File): Promise<number | undefined> {
  return new Promise((resolve) => {
    const media = document.createElement("audio");
    const address = URL.createObjectURL(file);
    const end = (seconds?: number) => {
      clearTimeout(timer);
      URL.revokeObjectURL(address);
      media.removeAttribute("src");
      resolve(seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined);
    };
    const timer = setTimeout(end, GIVE_UP_MS);
    media.preload = "metadata";
    media.onloadedmetadata = () => end(media.duration);
    media.onerror = () => end();
    media.src = address;
  });
}
