const GIVE_UP_MS = 8000;
/** Files that are measured at the same time. Hundreds at once would all be slow, and be given up. */
const AT_ONCE = 6;

let measuring = 0;
const waiting: (() => void)[] = [];

/** Finds the length of a recording, as far as the browser can play it. Returns seconds, or undefined. */
export async function lengthOfFile(file: File): Promise<number | undefined> {
  if (measuring < AT_ONCE) measuring += 1;
  else await new Promise<void>((begin) => waiting.push(begin));
  try {
    return await measured(file);
  } finally {
    const next = waiting.shift();
    if (next) next();
    else measuring -= 1;
  }
}

function measured(file: File): Promise<number | undefined> {
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
