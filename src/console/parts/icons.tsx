/** Shapes on a grid of 16 by 16, drawn with lines. */
const SHAPES = {
  waiting: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 5v3l2 1.5",
  working: "M2.5 8.5v-1M5.25 10.5v-5M8 12.5v-9M10.75 10.5v-5M13.5 8.5v-1",
  done: "M3 8.5l3.5 3.5L13 4.5",
  partial: "M3 8.5l3.5 3.5L9 9M11 6l2-2.5M11 11.5h2.5",
  failed: "M8 2.5l6 11H2zM8 6.5v3M8 11.5v.2",
  cancelled: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M4.2 4.2l7.6 7.6",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  back: "M7 4L3.5 8L7 12M3.5 8H13",
  left: "M10 3.5L5.5 8l4.5 4.5",
  right: "M6 3.5L10.5 8L6 12.5",
  up: "M3.5 10L8 5.5l4.5 4.5",
  down: "M3.5 6L8 10.5L12.5 6",
  rewind: "M8 4L3.5 8L8 12M13 4L8.5 8l4.5 4",
  forward: "M8 4l4.5 4L8 12M3 4l4.5 4L3 12",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M10.5 10.5L14 14",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M5 4L1.5 8L5 12M11 4l3.5 4L11 12M2 8h12",
  close: "M4 4l8 8M12 4l-8 8",
  edit: "M3 13l.8-3L10.5 3.3l2.2 2.2L6 12.2z",
  undo: "M5.5 3.5L2.5 6.5l3 3M2.5 6.5H9a4 4 0 0 1 0 7H6",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10",
  upload: "M8 11V3M4.5 6.5L8 3l3.5 3.5M3 13.5h10",
  copy: "M6 6h7.5v7.5H6zM3.5 10H2.5V2.5H10v1",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
  settings: "M2.5 5h6M11.5 5h2M10 3.5v3M2.5 11h2M7.5 11h6M6 9.5v3",
  keyboard: "M1.5 4h13v8.5h-13zM4 6.5h.2M7 6.5h.2M10 6.5h.2M12 6.5h.2M4.5 10h7",
  signOut: "M6.5 3H3v10h3.5M7 8h6.5M11 5.5L13.5 8L11 10.5",
  sound: "M2.5 6v4H5l3.5 3V3L5 6zM11 6q1.5 2 0 4",
  flag: "M4 14V2.5M4 3h8l-2 3l2 3H4",
  list: "M3 4h10M3 8h10M3 12h10",
  info: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 7.5v3.5M8 5v.2",
} as const;
export type IconName = keyof typeof SHAPES;

/** A drawing beside words; screen readers skip it. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={SHAPES[name]} />
    </svg>
  );
}
