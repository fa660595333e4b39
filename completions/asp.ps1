# PowerShell completion of asp: it asks the program what may be typed next.
# Install: asp completion powershell >> $PROFILE

Register-ArgumentCompleter -Native -CommandName asp -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)

  $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object {
      if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
  $typed = $wordToComplete.Trim("'", '"')
  $lines = @(& asp __complete powershell $words.Count -- @words $typed 2>$null)
  # Without an answer PowerShell offers files.
  if ($lines.Count -gt 0 -and $lines[-1] -in ':files', ':folders') { return }
  $offered = @($lines | Where-Object { $_ -and -not $_.StartsWith(':') } | ForEach-Object {
      $value, $about = $_.Split("`t", 2)
      # A bare @ begins something else here, and so does what is no letter, digit or - . / : = +.
      $text = if ($value -match '^[\w./:=+-]+$') { $value } else { "'" + $value.Replace("'", "''") + "'" }
      $hint = if ($about) { $about } else { $value }
      [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $hint)
    })
  if ($offered.Count -gt 0) { $offered } else { '' }
}
