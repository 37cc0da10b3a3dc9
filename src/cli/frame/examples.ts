/** Examples in the help and in the manual page, by command: what it is for, and the line after `shruti`. */
export const EXAMPLES: Record<string, readonly (readonly [purpose: string, line: string])[]> = {
  init: [
    ["in the current folder", "init"],
    ["for a service", "--config /etc/shruti/shruti.toml init --data /var/lib/shruti"],
    [
      "with a model from a machine with a network, and without questions",
      "init --languages hi --model ./carry.tar --bundle-key signer.pem --openai --yes",
    ],
    [
      "again and again, by a tool that manages machines",
      "init --unless-exists --name hospital --project-name ward --key-file ward.key",
    ],
  ],
  serve: [["with another port", "serve --config ./shruti.toml"]],
  "fleet init": [
    [
      "before the first worker",
      "fleet init --nats tls://nats.example:4222 --base-url https://shruti.example:8443",
    ],
  ],
  "fleet add": [["a machine with a GPU", "fleet add gpu-1"]],
  "folder status": [["why a recording was not taken", "folder status"]],
  "folder retry": [["all that failed, after the cause is gone", "folder retry all"]],
  "fleet drain": [["before the upgrade of a worker", "fleet drain gpu-1"]],
  mcp: [["for an assistant on this machine", "mcp --url https://speech.example --root ~/calls"]],
  worker: [["in the folder that `fleet add` made", "worker"]],
  transcribe: [
    ["print the words", "transcribe call.wav --language hi"],
    ["subtitles for a folder of recordings", "transcribe recordings --format srt --output subtitles"],
    ["WebVTT with the time of each word", "transcribe call.wav --language hi --format vtt --word-times"],
  ],
  benchmark: [
    ["score two models on your recordings", "benchmark recordings --language hi --models large-v3,small"],
  ],
  text: [["try the written form on a sentence", "text --language hi --numerals written < sentences.txt"]],
  "orgs create": [["with a price of ₹25 an hour", "orgs create Physics --price 2500"]],
  "orgs set": [["twice the share of the machine", "orgs set Physics --weight 2"]],
  "projects create": [["for an organization, by its name", "projects create calls --org Physics"]],
  "keys create": [
    [
      "a key for 90 days that may only read",
      "keys create --project calls --name report --scopes transcriptions:read --expires 90d",
    ],
  ],
  "keys list": [["of one organization", "keys list --org Physics"]],
  "keys confirm": [["all keys of an old backup, after you have looked at them", "keys confirm --all"]],
  "credit grant": [["₹1,000", "credit grant --org Physics --paise 100000 --note invoice-17"]],
  "credit audit": [["prove that nothing was changed", "credit audit"]],
  "models add": [
    ["a file of whisper.cpp", "models add ggml-large-v3-q5_0.bin"],
    [
      "a folder of transformers",
      "models add whisper-hindi-small --languages hi --licence Apache-2.0 --quantise q5_0",
    ],
  ],
  "models advise": [["for two languages and 8 GB", "models advise --languages hi,ta --memory 8g"]],
  "models quantise": [["a smaller copy", "models quantise large-v3 --to q5_0"]],
  "models fetch": [
    ["with internet access", "models fetch large-v3-q5_0"],
    ["addresses and checksums to carry by hand", "models fetch large-v3-q5_0 --print"],
  ],
  "models route": [["another model for Kannada", "models route kn=indicconformer"]],
  "transcriptions list": [["what failed today", "transcriptions list --failed --since 24h"]],
  "transcriptions retry": [["after its cause is gone", "transcriptions retry tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"]],
  "uploads list": [["what was rejected, and why", "uploads list --rejected --since 7d"]],
  "audit list": [["what has happened to one organization", "audit list --org Physics --since 30d"]],
  "orgs purge": [["a customer who leaves", "orgs purge Physics --yes"]],
  "receipts show": [
    ["a file for the customer", "receipts show tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C > receipt.json"],
  ],
  "receipts verify": [["on any machine", "receipts verify receipt.json --key appliance.pem"]],
  "transcriptions evidence": [
    ["a file for a court", "transcriptions evidence tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C --output evidence.json"],
  ],
  "evidence verify": [
    [
      "are the words those of the recording?",
      "evidence verify evidence.json --key appliance.pem --audio call.wav",
    ],
  ],
  "audit verify": [["prove that nothing was changed", "audit verify"]],
  "transcriptions show": [
    ["why it failed, or took so long", "transcriptions show tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"],
    ["its result as subtitles", "transcriptions show tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C --format srt"],
  ],
  "buckets add": [
    [
      "recordings and results in a bucket of AWS",
      "buckets add calls --org Physics --endpoint https://s3.ap-south-1.amazonaws.com --region ap-south-1 --access-key AKIA1 --secret-file secret",
    ],
  ],
  "webhooks redeliver": [
    ["everything that failed at one endpoint", "webhooks redeliver --failed whe_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"],
  ],
  "usage export": [
    [
      "one month for accountants",
      "usage export --org Physics --from 2026-11-01 --to 2026-11-30 --format csv",
    ],
  ],
  "usage summary": [
    ["a month of all organizations for a spreadsheet", "usage summary --month 2026-11 --format csv"],
  ],
  "storage prune": [["what would go", "storage prune --older-than 90d --dry-run"]],
  "clock confirm": [["after a look at a clock that is right", "clock confirm"]],
  "projects set": [
    ["recordings for a week", "projects set calls --audio-days 7"],
    ["Hindi for programs that send no language", "projects set calls --default-language hi"],
  ],
  backup: [
    ["everything, of which the newest 14 backups are kept", "backup --to /backup/shruti --keep 14"],
    ["everything in one file", "backup /backup/shruti-2026-11-22.tar --all"],
    ["the database alone", "backup /backup/shruti-2026-11-22.db"],
  ],
  "backup verify": [["every backup of a folder", "backup verify /backup/shruti"]],
  restore: [
    ["the newest backup of a folder, while no server runs", "restore /backup/shruti"],
    ["on a new machine", "restore /backup/shruti-2026-11-22.tar --data /var/lib/shruti"],
  ],
  migrate: [["only look", "migrate --check"]],
  "bundle create": [
    [
      "a model for a machine without a network",
      "bundle create carry.tar --models large-v3-q5_0 --key carry-key.pem",
    ],
  ],
  "config check": [["before a restart", "config check --config /etc/shruti/shruti.toml"]],
  status: [["wait in a script until the server can take work", "status --ready"]],
  verify: [["a release", "verify shruti-0.1.0-linux-x64.tar.gz --key release-public.pem"]],
};
