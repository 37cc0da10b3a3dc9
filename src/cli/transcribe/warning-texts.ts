import type { AudioTracks, TranscriptionResult, Warning } from "../../domain/result.ts";

/** What each warning of a result means for people who read it on a terminal. */
const WARNING_TEXTS: Record<Warning, string> = {
  no_speech: "no speech was found, or no word of it was understood; check --language",
  low_confidence: "the model is unsure of many words; check --language",
  repetition_removed: "the model repeated itself; one turn was kept",
  suspected_hallucination: "some text has no speech behind it",
  clipped_audio: "the recording is too loud and clipped",
  low_volume: "the recording is very quiet",
  narrowband_audio: "this is telephone sound, which lowers the accuracy",
  identical_channels: "both channels carry the same sound",
  script_mismatch: "the text has letters of a script that the mode excludes; check --language and --mode",
  speaker_count_uncertain: "another number of speakers is as likely",
  truncated_audio: "the file ends early, or sound in it could not be decoded",
  unrecognized_speech: "some speech was not understood; its times are in the field unrecognized",
  language_mismatch: "another language is spoken than the one asked for; check --language",
  word_times_missing: "for some text the model gave no times of words",
  punctuation_missing:
    "the model of punctuation could not be used; `shruti models verify` names what is wrong",
  tracks_left_out: "other audio tracks with sound were left out; see engine.tracks",
};

/** Renders one sentence for each warning of a result. */
export function describeWarnings({ warnings, audioTracks }: TranscriptionResult): string[] {
  return warnings.map((warning) => {
    const text =
      warning === "tracks_left_out" && audioTracks ? tracksText(audioTracks) : WARNING_TEXTS[warning];
    return `${text} (${warning})`;
  });
}

function tracksText({ transcribed, leftOut }: AudioTracks): string {
  const others = `${leftOut.length === 1 ? "track" : "tracks"} ${leftOut.join(", ")}`;
  return `audio track ${transcribed} of the file was transcribed, counted from 0; ${others} with sound left out, see engine.tracks`;
}
