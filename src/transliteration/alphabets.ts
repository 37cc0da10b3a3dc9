/**
 * The letters that each language in a Brahmic script needs, in its usual script. A language is offered in another script when that one
 * has all of them. Rarer letters stay in their own script, so that nothing is lost.
 */
const NAGARI = "अआइईउऊएऐओऔािीुूेैोौ्ंँकखगघङचछजझञटठडढणतथदधनपफबभमयरलवशसह";
const BENGALI = "অআইঈউঊঋএঐওঔািীুূৃেৈোৌ্ংঃঁকখগঘঙচছজঝঞটঠডঢণতথদধনপফবভমযলশষসহড়ঢ়য়ৎ";
const TELUGU = "అఆఇఈఉఊఋఎఏఐఒఓఔాిీుూృెేైొోౌ్ంఃకఖగఘఙచఛజఝఞటఠడఢణతథదధనపఫబభమయరఱలవశషసహళ";
const KANNADA = "ಅಆಇಈಉಊಋಎಏಐಒಓಔಾಿೀುೂೃೆೇೈೊೋೌ್ಂಃಕಖಗಘಙಚಛಜಝಞಟಠಡಢಣತಥದಧನಪಫಬಭಮಯರಲವಶಷಸಹಳ";
const MALAYALAM = "അആഇഈഉഊഋഎഏഐഒഓഔാിീുൂൃെേൈൊോൗ്ംഃകഖഗഘങചഛജഝഞടഠഡഢണതഥദധനപഫബഭമയരറലവശഷസഹളഴൺൻർൽൾ";
const GUJARATI = "અઆઇઈઉઊઋએઐઓઔઑાિીુૂૃેૈોૌૉ્ંઃકખગઘઙચછજઝઞટઠડઢણતથદધનપફબભમયરલવશષસહળ";
const ODIA = "ଅଆଇଈଉଊଋଏଐଓଔାିୀୁୂୃେୈୋୌ୍ଂଃଁକଖଗଘଙଚଛଜଝଞଟଠଡଢଣତଥଦଧନପଫବଭମଯରଲଶଷସହଳଡ଼ଢ଼ୟ";
const TAMIL = "அஆஇஈஉஊஎஏஐஒஓஔாிீுூெேைொோௌ்ஃகஙசஞடணதநபமயரலவழளறனஜஷஸஹ";
/** Tippi, bindi and addak are left out: other scripts write them with marks that all have. */
const GURMUKHI = "ਅਆਇਈਉਊਏਐਓਔਾਿੀੁੂੇੈੋੌ੍ਕਖਗਘਚਛਜਝਟਠਡਢਣਤਥਦਧਨਪਫਬਭਮਯਰਲਵਸਹੜਸ਼ਖ਼ਗ਼ਜ਼ਫ਼ਲ਼";

export const ALPHABETS: Readonly<Record<string, string>> = {
  as: `${BENGALI}ৰৱ`,
  bn: `${BENGALI}র`,
  brx: NAGARI,
  doi: `${NAGARI}ड़ढ़`,
  gu: GUJARATI,
  hi: `${NAGARI}ऋृषः़ड़ढ़ज़फ़ऑॉ`,
  kn: KANNADA,
  kok: `${NAGARI}ऋृषःळऑॉॅ`,
  mai: `${NAGARI}ऋृषःड़ढ़`,
  ml: MALAYALAM,
  mr: `${NAGARI}ऋृषःळऑॉॅॲ`,
  ne: `${NAGARI}ऋृषः`,
  or: ODIA,
  pa: GURMUKHI,
  sa: `${NAGARI}ऋृषःॠॄऽ`,
  ta: TAMIL,
  te: TELUGU,
};
