/**
 * The marks that end a sentence in the scripts of the languages, for a character class: those of Latin script, dandas, those
 * of Arabic script, mucaads of Ol Chiki, and cheikhei, cheikhan and ahang khudam of Meetei Mayek.
 */
export const SENTENCE_ENDS = ".?!\u0964\u0965\u06D4\u061F\u1C7E\u1C7F\uABEB\uAAF0\uAAF1";
