/** A text in which spellings that mean the same are the same, with the place of each of its units in the original. */
export type Folded = {
  text: string;
  /** The place in the original where each UTF-16 unit of `text` begins. */
  starts: number[];
  /** And where it ends there, with marks behind it that are left out. */
  ends: number[];
};

/** Scripts of India whose blocks have the same order: Devanagari, Bengali, Gurmukhi, Gujarati, Odia, Telugu, Kannada. */
const BLOCKS = [0x900, 0x980, 0xa00, 0xa80, 0xb00, 0xc00, 0xc80];
const BLOCK_SIZE = 0x80;
/** Places in such a block. */
const [CANDRABINDU, ANUSVARA, NUKTA, VIRAMA] = [0x01, 0x02, 0x3c, 0x4d];
const NASALS = [0x19, 0x1e, 0x23, 0x28, 0x2e];
const [FIRST_CONSONANT, LAST_CONSONANT] = [0x15, 0x39];
const JOINERS = [0x200c, 0x200d];

/**
 * Folds a text for searching, because people spell in several ways. Nothing is left of case, of the dot below a letter
 * (फ़ is फ), of joiners, and of the three ways to write a nasal (नम्बर, नंबर and नँबर are one).
 */
export function folded(text: string): Folded {
  const found: Folded = { text: "", starts: [], ends: [] };
  const add = (folds: string, start: number, end: number) => {
    found.text += folds;
    for (let unit = 0; unit < folds.length; unit += 1) {
      found.starts.push(start);
      found.ends.push(end);
    }
  };
  for (let at = 0; at < text.length; ) {
    const code = text.codePointAt(at) ?? 0;
    const character = String.fromCodePoint(code);
    const end = at + character.length;
    const place = code % BLOCK_SIZE;
    const block = BLOCKS.includes(code - place) ? code - place : 0;
    if (JOINERS.includes(code) || (block > 0 && place === NUKTA)) {
      if (found.ends.length > 0) found.ends[found.ends.length - 1] = end;
      at = end;
    } else if (block > 0 && NASALS.includes(place) && isNasalBeforeConsonant(text, at, block)) {
      add(String.fromCodePoint(block + ANUSVARA), at, end + 1);
      at = end + 1;
    } else {
      const sign = block > 0 && place === CANDRABINDU ? String.fromCodePoint(block + ANUSVARA) : undefined;
      add(sign ?? withoutNukta(character, block).toLowerCase(), at, end);
      at = end;
    }
  }
  return found;
}

function isNasalBeforeConsonant(text: string, at: number, block: number): boolean {
  const next = text.charCodeAt(at + 2) - block;
  return text.charCodeAt(at + 1) === block + VIRAMA && next >= FIRST_CONSONANT && next <= LAST_CONSONANT;
}

/** Some letters with the dot are characters of their own. */
function withoutNukta(character: string, block: number): string {
  if (block === 0) return character;
  const [base = character, ...marks] = character.normalize("NFD");
  return marks.length === 1 && marks[0]?.codePointAt(0) === block + NUKTA ? base : character;
}
