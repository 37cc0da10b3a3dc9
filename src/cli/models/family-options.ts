import { type Command, Option } from "commander";
import type { FamilyTuning } from "../../domain/model.ts";
import type { AddingOption } from "../../families/contract.ts";
import { FAMILIES } from "../../families/families.ts";

/** An option, and the setting that it sets: its field, and the name under which the family has its settings. */
type Declared = { option: AddingOption; tuning: string; field: string };

/** Lists the options that families declare, each once: families may share their keys. */
function declaredOptions(): Declared[] {
  const found = new Map<string, Declared>();
  for (const { keys } of FAMILIES.list)
    for (const { option, field } of Object.values(keys.decoding))
      if (option) found.set(option.flags, { option, field, tuning: keys.tuning });
  return [...found.values()];
}

function optionOf({ flags, help, choices }: AddingOption): Option {
  const option = new Option(flags, help);
  return choices ? option.choices(choices) : option;
}

/** Adds the options to a command with which families let an admin set what files do not say. */
export function addFamilyOptions(command: Command): Command {
  for (const { option } of declaredOptions()) command.addOption(optionOf(option));
  return command;
}

/** Returns the settings of families that the options of a command give. An option that was left out sets nothing. */
export function familyTuningOf(command: Command): FamilyTuning {
  const tuning: Record<string, Record<string, unknown>> = {};
  for (const { option, tuning: name, field } of declaredOptions()) {
    const attribute = optionOf(option).attributeName();
    if (command.getOptionValueSource(attribute) === "cli")
      tuning[name] = { ...tuning[name], [field]: command.getOptionValue(attribute) };
  }
  return tuning;
}
