//! Texts on which tokenizers part company: what they split, normalize and look up.

/// One or more characters of every kind that rules of splitting tell apart.
const KINDS: [&str; 52] = [
    "a",
    "Z",
    "x\u{301}",
    "ab",
    "AB",
    "aB",
    "é",
    "É",
    "ß",
    "ſ",
    "K",
    "İ",
    "ǅ",
    "ʰ",
    "ª",
    "я",
    "Я",
    "\u{5d0}",
    "\u{628}\u{64e}",
    "\u{915}\u{93f}",
    "\u{e01}\u{e33}",
    "中",
    "漢字",
    "か",
    "カ",
    "한",
    "\u{1100}\u{1161}",
    "0",
    "12",
    "1234",
    "²",
    "½",
    "Ⅷ",
    "٣",
    "'",
    "'s",
    "'LL",
    "’s",
    ".",
    "!?",
    "_",
    "=",
    "€",
    "👍🏽",
    "👩\u{200d}💻",
    "🇩🇪",
    "\u{fe0f}",
    "\u{301}",
    "\u{200b}",
    "\u{ad}",
    "\u{fffd}",
    "\u{10ffff}",
];

/// White space, and what some take for it.
const SPACES: [&str; 24] = [
    " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\u{b}", "\u{c}", "\u{1c}", "\u{1f}",
    "\u{85}", "\u{a0}", "\u{1680}", "\u{180e}", "\u{2003}", "\u{2028}", "\u{2029}", "\u{202f}",
    "\u{205f}", "\u{3000}", "\u{feff}", "\0",
];

/// Whole texts.
const TEXTS: [&str; 14] = [
    "",
    "Hello, world! It's 2024-01-31; they're 'quoted' and we'VE \"gone\".",
    "def f(x):\n    return x ** 2  # \u{a0}why?\n\n\n\tpass\r\n  \r\n",
    "camelCaseXMLHttpRequest2 SCREAMING_SNAKE ALLCAPSlower iPhone McDonald's",
    "http://user@example.org:8080/a/b%20c?d=e&f=%F0%9F%92%A9#g",
    "3.14159 1,000,000 0xDEADBEEF 1e-10 ١٢٣٤٥ 123456789012345678901234567890",
    "I\u{307}stanbul \u{130}STANBUL \u{1e9e} \u{fb01}n \u{2126} \u{212b} e\u{301} \u{e9}",
    "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} \u{1F1E9}\u{1F1EA} \u{2764}\u{FE0F} \u{E0001}",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया สวัสดีชาวโลก 안녕하세요 こんにちは世界 你好，世界",
    "<s> </s> <unk> <pad> [CLS] [SEP] [MASK] <|endoftext|> <|im_start|> <0x0A> ▁ Ġ Ċ",
    "\u{d7ff}\u{e000}\u{f8ff}\u{fdd0}\u{fffe}\u{ffff}\u{10000}\u{1fffe}\u{2ffff}",
    "a\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}b \u{345}\u{37a} \u{1d165}",
    "''s 's' 'S 'ſ 'll'LL'lL 'd'D're'Re 've't'm'M \u{2019}s '",
    "\u{202e}abc\u{202c} \u{2066}x\u{2069} a\u{ad}b a\u{2060}b \u{1b}[31m\u{7f}\u{80}\u{9f}",
];

const RUN_LENGTHS: [usize; 9] = [3, 7, 8, 15, 16, 17, 33, 64, 1500];
const NUM_MIXED: u64 = 400;

/// The texts; `added` are tokens of a tokenizer that texts may hold literally.
pub fn texts(added: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = TEXTS.map(String::from).to_vec();
    all.push(('\0'..='\u{ff}').collect());
    all.push(
        (' '..='~')
            .map(|c| format!("{c} {c}{c} a{c}1{c}A "))
            .collect(),
    );
    all.extend(pairs());
    all.extend(runs());
    all.extend(with_added(added));
    all.extend((0..NUM_MIXED).map(|number| mixed(number, &[])));
    all
}

/// Every two kinds beside each other, and with white space between, before and after.
fn pairs() -> impl Iterator<Item = String> {
    KINDS.iter().flat_map(|one| {
        let beside = KINDS.iter().map(move |other| format!("{one}{other} "));
        let spaced = SPACES
            .iter()
            .map(move |space| format!("{space}{one}{space}a{space}{space}{one}{space}\n"));
        [beside.collect(), spaced.collect()]
    })
}

/// The same again and again, at lengths where engines change their way.
fn runs() -> impl Iterator<Item = String> {
    let all = KINDS.iter().chain(&SPACES);
    all.enumerate().map(|(number, unit)| {
        let mut text = String::new();
        for length in RUN_LENGTHS {
            // A long run of everything takes the exact engine too long.
            if length < 1000 || number % 8 == 0 {
                text.push_str(&unit.repeat(length));
                text.push_str("b ");
            }
        }
        text
    })
}

/// Added tokens beside each other, inside words and white space.
fn with_added(added: &[&str]) -> Vec<String> {
    const MOST: usize = 64;
    let step = (added.len() / MOST).max(1);
    let some: Vec<&str> = added.iter().copied().step_by(step).collect();
    let mut all: Vec<String> = some
        .iter()
        .map(|token| {
            let (upper, lower) = (token.to_uppercase(), token.to_lowercase());
            let begin: String = token.chars().take(token.chars().count() / 2).collect();
            format!(
                "{token}a{token} {token}  {token}\n{token}{token}b\u{301}{token}é {begin}{token} \
                 x{token}1_{token}. {upper} {lower}\t {token} \u{3000}{token}\u{a0}"
            )
        })
        .collect();
    if !some.is_empty() {
        all.extend((0..NUM_MIXED / 4).map(|number| mixed(number, &some)));
    }
    all
}

/// A text of some kinds, white space and tokens by chance: the same for each number.
pub fn mixed(number: u64, added: &[&str]) -> String {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    let mut text = String::new();
    for _ in 0..1 + next(40) {
        match next(8) {
            0..4 => text.push_str(KINDS[next(KINDS.len())]),
            4 | 5 => text.push_str(SPACES[next(SPACES.len())]),
            6 if !added.is_empty() => text.push_str(added[next(added.len())]),
            _ => {
                let any = u32::try_from(next(0x11_0000)).unwrap_or(0);
                text.push(char::from_u32(any).unwrap_or('\u{d7ff}'));
            }
        }
    }
    text
}
