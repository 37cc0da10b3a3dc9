import { type Signal, signal } from "@preact/signals";

export const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2] as const;

/** Plays a recording: one media element, and what the page shows of it. */
export type Player = {
  media: HTMLAudioElement;
  /** Seconds; follows the sound ten times a second. */
  time: Signal<number>;
  isPlaying: Signal<boolean>;
  speed: Signal<number>;
  /** False until the browser knows the recording, and for good when it cannot play it. */
  canPlay: Signal<boolean>;
  hasFailed: Signal<boolean>;
  toggle(): void;
  /** Sets the place, and plays on if it was playing. */
  seek(seconds: number): void;
  playFrom(seconds: number): void;
  /** Is silent for a time if it plays, and then plays on. Another call while it is silent begins that time again. */
  pauseFor(milliseconds: number): void;
  step(seconds: number): void;
  faster(steps: number): void;
  setSpeed(speed: number): void;
  close(): void;
};

const LOOK_EVERY_MS = 100;
/** A link that fails sooner after the one before is not the reason. */
const RENEW_AFTER_MS = 10_000;

/**
 * @param address of the recording; the browser asks for the parts that it plays
 * @param renew gives another address: they expire, and end with the server
 */
export function createPlayer(address: string, renew: () => Promise<string>): Player {
  const media = new Audio();
  const time = signal(0);
  const isPlaying = signal(false);
  const speed = signal(1);
  const canPlay = signal(false);
  const hasFailed = signal(false);
  let timer: ReturnType<typeof setInterval> | undefined;
  /** Ends a silence. */
  let goOn: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    time.value = media.currentTime;
  };
  media.preload = "metadata";
  media.addEventListener("loadedmetadata", () => {
    canPlay.value = true;
  });
  let renewedAt = Number.NEGATIVE_INFINITY;
  const giveUp = () => {
    hasFailed.value = true;
    canPlay.value = false;
  };
  media.addEventListener("error", () => {
    if (performance.now() - renewedAt < RENEW_AFTER_MS) return giveUp();
    renewedAt = performance.now();
    const at = media.currentTime;
    const wasPlaying = isPlaying.value || !media.paused;
    void renew()
      .then((next) => {
        media.src = next;
        media.currentTime = at;
        media.playbackRate = speed.value;
        if (wasPlaying) play();
      })
      .catch(giveUp);
  });
  media.addEventListener("seeking", look);
  media.addEventListener("play", () => {
    isPlaying.value = true;
    clearTimeout(goOn);
    goOn = undefined;
    timer ??= setInterval(look, LOOK_EVERY_MS);
  });
  for (const end of ["pause", "ended"]) {
    media.addEventListener(end, () => {
      isPlaying.value = false;
      clearInterval(timer);
      timer = undefined;
      look();
    });
  }
  media.src = address;
  const play = () => void media.play().catch(() => undefined);
  const seek = (seconds: number) => {
    const last = Number.isFinite(media.duration) ? media.duration : seconds;
    media.currentTime = Math.min(Math.max(0, seconds), last);
  };
  const setSpeed = (next: number) => {
    speed.value = next;
    media.playbackRate = next;
    media.defaultPlaybackRate = next;
  };
  return {
    ...{ media, time, isPlaying, speed, canPlay, hasFailed, seek, setSpeed },
    toggle: () => (media.paused ? play() : media.pause()),
    playFrom(seconds) {
      seek(seconds);
      play();
    },
    pauseFor(milliseconds) {
      if (media.paused && goOn === undefined) return;
      media.pause();
      clearTimeout(goOn);
      goOn = setTimeout(play, milliseconds);
    },
    step: (seconds) => seek(media.currentTime + seconds),
    faster(steps) {
      const at = (SPEEDS as readonly number[]).indexOf(speed.value);
      setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, at + steps))] ?? 1);
    },
    close() {
      clearInterval(timer);
      clearTimeout(goOn);
      media.pause();
      media.removeAttribute("src");
      media.load();
    },
  };
}
