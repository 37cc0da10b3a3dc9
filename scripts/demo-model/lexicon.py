"""The words of the demonstration's domain: numbers, days, months, English words inside Hindi, and whole phrases.

Every word is one token of the model. Devanagari is in NFC throughout. Words are written as they are spoken, with
hesitations: Shruti's wording stage (src/pipeline/wording.ts) removes the hesitations in the modes without them.
"""
import unicodedata

UNKNOWN = "…"  # one for each part of speech outside the domain; not a letter, so that no mode suppresses it

DIGITS_EN = "zero one two three four five six seven eight nine".split()
TEENS_EN = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS_EN = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBERS_HI = """
शून्य एक दो तीन चार पाँच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस
बीस इक्कीस बाईस तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस
अड़तीस उनतालीस चालीस इकतालीस बयालीस तैंतालीस चौवालीस पैंतालीस छियालीस सैंतालीस अड़तालीस उनचास पचास इक्यावन बावन
तिरपन चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर इकहत्तर
बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उनासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी सत्तासी
अट्ठासी नवासी नब्बे इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे""".split()

DAYS_EN = "monday tuesday wednesday thursday friday saturday sunday".split()
DAYS_HI = "सोमवार मंगलवार बुधवार गुरुवार शुक्रवार शनिवार रविवार".split()
MONTHS_EN = "january february march april may june july august september october november december".split()
MONTHS_HI = "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर".split()

NUMBERED_EN = "order phone account room ticket card".split()
NUMBERED_HI = "ऑर्डर फ़ोन खाता कमरा टिकट कार्ड अकाउंट रूम".split()
DEVICES_EN = "light fan camera music radio".split()
DEVICES_HI = "बत्ती पंखा कैमरा संगीत रेडियो लाइट फ़ैन म्यूज़िक".split()
THINGS_EN = "order payment refund delivery service problem account card".split()
THINGS_HI = "ऑर्डर पेमेंट रिफंड डिलीवरी सर्विस प्रॉब्लम अकाउंट कार्ड".split()
MASCULINE_HI = "ऑर्डर पेमेंट रिफंड अकाउंट कार्ड".split()
EVENTS_EN = "meeting delivery payment call appointment".split()
EVENTS_HI = "मीटिंग डिलीवरी पेमेंट कॉल अपॉइंटमेंट".split()

FILLERS = {"en": ["um", "uh", "hmm"], "hi": ["उम", "हम्म"]}

# English words in Hindi spelling. With the code-mixing prompt they are written in Latin letters.
LOANS = {
    "ज़ीरो": "zero", "वन": "one", "टू": "two", "थ्री": "three", "फ़ोर": "four", "फ़ाइव": "five", "सिक्स": "six",
    "सेवन": "seven", "एट": "eight", "नाइन": "nine",
    "मंडे": "monday", "ट्यूज़डे": "tuesday", "वेडनेसडे": "wednesday", "थर्सडे": "thursday", "फ़्राइडे": "friday",
    "सैटरडे": "saturday", "संडे": "sunday",
    "ऑर्डर": "order", "फ़ोन": "phone", "टिकट": "ticket", "कार्ड": "card", "अकाउंट": "account", "रूम": "room",
    "नंबर": "number", "लाइट": "light", "फ़ैन": "fan", "कैमरा": "camera", "म्यूज़िक": "music", "रेडियो": "radio",
    "ऑन": "on", "ऑफ़": "off", "पेमेंट": "payment", "रिफंड": "refund", "डिलीवरी": "delivery", "सर्विस": "service",
    "प्रॉब्लम": "problem", "मीटिंग": "meeting", "कॉल": "call", "अपॉइंटमेंट": "appointment", "टाइम": "time",
    "चेक": "check", "ऑनलाइन": "online", "मैनेजर": "manager", "कस्टमर": "customer", "पासवर्ड": "password",
    "ईमेल": "email", "मैसेज": "message", "मोबाइल": "mobile", "प्लीज़": "please", "सॉरी": "sorry", "ओके": "okay",
    "थैंक": "thank", "यू": "you", "हेलो": "hello", "बैंक": "bank", "कैंसल": "cancel", "कन्फ़र्म": "confirm",
    "टोटल": "total", "हेल्प": "help", "चेंज": "change", "टुडे": "today", "लेट": "late",
}
LOAN_DIGITS = list(LOANS)[:10]
LOAN_DAYS = list(LOANS)[10:17]

# The prompt that Shruti gives in code-mixed mode (`codemixPrompt` of "hi" in src/pipeline/wording-tables.ts).
CODEMIX_PROMPT = "मेरा order number check करो, payment online हो गया है और delivery time पर चाहिए।"

PHRASES_EN = """
hello | hello good morning | good morning | good afternoon | good evening | good night | goodbye | thank you
thank you very much | yes | no | okay | yes please | no thank you | please | sorry | please wait | one moment please
how are you | i am fine | what is your name | how can i help you | welcome to customer service | i need help
can you help me | please speak slowly | please say that again | i do not understand | i understand | that is right
that is not right | please hold the line | who is calling | may i know your name | please call me back
i will call you back | i want to speak to the manager | where is my order | my order is late | my order has not come
i want a refund | i want to cancel my order | please cancel my order | please confirm my order | has the order come
the payment is complete | the payment did not go through | how much is the bill | what is the time | what is the price
please check my account | i want to change my password | i forgot my password | my phone is not working
the internet is not working | please send me an email | please send me a message | the call is recorded
your call is important to us | is there anything else | have a nice day | see you tomorrow | it is very good
i am not happy with the service | please give me your number | please check the number | thank you for calling
"""
PHRASES_HI = """
नमस्ते | नमस्ते सुप्रभात | सुप्रभात | शुभ रात्रि | अलविदा | धन्यवाद | बहुत धन्यवाद | हाँ | नहीं | ठीक है | जी हाँ | जी नहीं
कृपया | माफ़ कीजिए | कृपया रुकिए | एक मिनट रुकिए | आप कैसे हैं | मैं ठीक हूँ | आपका नाम क्या है | मैं आपकी क्या मदद कर सकता हूँ
कस्टमर सर्विस में आपका स्वागत है | मुझे मदद चाहिए | क्या आप मेरी मदद कर सकते हैं | कृपया धीरे बोलिए | कृपया फिर से बोलिए
मुझे समझ नहीं आया | मैं समझ गया | यह सही है | यह सही नहीं है | कौन बोल रहा है | मुझे वापस कॉल कीजिए | मैं आपको बाद में कॉल करता हूँ
मुझे मैनेजर से बात करनी है | मेरा ऑर्डर कहाँ है | मेरा ऑर्डर अभी तक नहीं आया | मुझे रिफंड चाहिए | मुझे ऑर्डर कैंसल करना है
कृपया मेरा ऑर्डर कन्फ़र्म करो | पेमेंट हो गया है | पेमेंट नहीं हुआ | बिल कितना है | समय क्या हुआ है | इसका दाम क्या है
प्लीज़ मेरा अकाउंट चेक करो | मुझे पासवर्ड चेंज करना है | मैं पासवर्ड भूल गया | मेरा फ़ोन काम नहीं कर रहा है | मुझे ईमेल भेजिए
मुझे मैसेज भेजिए | और कुछ चाहिए | आपका दिन शुभ हो | कल मिलते हैं | यह बहुत अच्छा है | मैं सर्विस से खुश नहीं हूँ | अपना नंबर बताइए
कृपया नंबर चेक करो | कॉल करने के लिए धन्यवाद | मेरा ऑर्डर नंबर चेक करो | पेमेंट ऑनलाइन हो गया है | डिलीवरी टाइम पर चाहिए
हेलो | सॉरी | ओके | थैंक यू | मुझे हेल्प चाहिए | डिलीवरी लेट है | मोबाइल नंबर बताइए | बैंक से कॉल आया और मैसेज भी आया
"""


def nfc(text):
    """Returns the Unicode form in which all texts are compared: canonical composition."""
    return unicodedata.normalize("NFC", text)


def phrases(table):
    """Returns the phrases of a table above, which are separated by bars and line ends."""
    return [nfc(phrase.strip()) for line in table.strip().split("\n") for phrase in line.split("|")]


LOANS = {nfc(word): english for word, english in LOANS.items()}


def codemixed(text):
    """Returns the form that the code-mixing prompt requests: English words in Latin letters."""
    return " ".join(LOANS.get(word, word) for word in text.split())
