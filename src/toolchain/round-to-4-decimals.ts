// Rounds shares, confidences and risks to the precision of reports and model projects.

export const roundTo4Decimals = (value: number): number => Number(value.toFixed(4));
